#include "heuristics/squeaky_wheel.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "heuristics/order_packer.hpp"
#include "heuristics/orders.hpp"

namespace lowtide {
namespace {

// How blamed buffers move forward.
enum class Promotion { kToFront, kHalfway };

struct Wheel {
  std::vector<Index> order;
  Fit fit;
  Promotion promotion;
  Packing packing;                                 // of the last turn
  Bytes best = std::numeric_limits<Bytes>::max();  // of all turns
  std::vector<Index> best_order;
};

struct Start {
  const char* order;
  Fit fit;
  Promotion promotion;
};

// In the order in which they are tried: where time is short, only the first will be.
constexpr Start kStarts[] = {
    {"peak", Fit::kFirst, Promotion::kToFront},          {"size", Fit::kFirst, Promotion::kHalfway},
    {"peak-size", Fit::kFirst, Promotion::kHalfway},     {"peak", Fit::kBest, Promotion::kHalfway},
    {"peak-area", Fit::kBest, Promotion::kToFront},      {"peak-conflicts", Fit::kFirst, Promotion::kHalfway},
    {"peak-conflicts", Fit::kBest, Promotion::kToFront}, {"conflicts-size", Fit::kFirst, Promotion::kToFront},
};

// A pass over a large problem takes long, and a second turn of a good wheel is worth more than a first one of
// the next.
std::size_t wheel_count(Index buffers) {
  if (buffers > 250'000) return 2;
  if (buffers > 60'000) return 4;
  return std::size(kStarts);
}

constexpr std::int64_t kRoundsPerGeneration = 6;

class Search {
 public:
  Search(const Problem& problem, const ImproveOptions& options)
      : problem_(problem), options_(options), setting_(problem) {
    wheels_.resize(wheel_count(problem.count()));
    if (options.incumbent != nullptr) {
      if (static_cast<Index>(options.incumbent->size()) != problem.count()) {
        throw std::invalid_argument("an incumbent needs one offset for each buffer");
      }
      result_.packing = {*options.incumbent, arena_of(problem, *options.incumbent)};
      has_packing_ = true;
    }
    for (int t = 0; t < std::max(1, options.threads); ++t) {
      packers_.push_back(std::make_unique<OrderPacker>(setting_));
    }
  }

  Improvement run() {
    while (!has_packing_ || (result_.rounds < options_.max_rounds && !done())) {
      turn_all();
      if (error_) std::rethrow_exception(error_);
      if (stopped()) break;
      ++result_.rounds;
      if (result_.rounds % kRoundsPerGeneration == 0) next_generation();
    }
    return std::move(result_);
  }

 private:
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed); }
  bool met() const { return has_packing_ && result_.packing.arena <= options_.target; }
  bool done() const { return stopped() || met(); }

  // One turn of every wheel. Threads take the wheels in order; once one has met the target, only the wheels
  // before it still matter.
  void turn_all() {
    next_ = 0;
    const auto work = [this](OrderPacker& packer) {
      try {
        for (std::size_t w = next_++; w < wheels_.size() && w < met_by_ && (w == 0 || !stopped());
             w = next_++) {
          turn(w, packer);
        }
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_ = wheels_.size();
      }
    };
    std::vector<std::jthread> helpers;
    for (std::size_t t = 1; t < packers_.size(); ++t) helpers.emplace_back(work, std::ref(*packers_[t]));
    work(*packers_[0]);
  }

  void turn(std::size_t w, OrderPacker& packer) {
    Wheel& wheel = wheels_[w];
    if (wheel.order.empty()) {
      wheel.order = order_by(problem_, setting_.ranks, kStarts[w].order);
      wheel.fit = kStarts[w].fit;
      wheel.promotion = kStarts[w].promotion;
    } else {
      promote_blamed(wheel);
    }
    // Without an incumbent the very first pass is owed to the caller, however late it is.
    const bool owed = w == 0 && result_.rounds == 0 && options_.incumbent == nullptr;
    const auto stop = [&] { return met_by_ < w || (stopped() && !owed); };
    if (!packer.pack(wheel.order, wheel.fit, stop, wheel.packing)) return;
    if (wheel.packing.arena < wheel.best) {
      wheel.best = wheel.packing.arena;
      wheel.best_order = wheel.order;
    }
    offer(w);
  }

  void offer(std::size_t w) {
    const Packing& packing = wheels_[w].packing;
    const std::lock_guard lock(mutex_);
    if (packing.arena <= options_.target) met_by_ = std::min(met_by_.load(), w);
    const bool first = !has_packing_;
    const bool better = first || packing.arena < result_.packing.arena;
    const bool earlier =
        !first && packing.arena == result_.packing.arena && best_round_ == result_.rounds && w < best_wheel_;
    if (!better && !earlier) return;
    result_.packing = packing;
    has_packing_ = true;
    best_round_ = result_.rounds;
    best_wheel_ = w;
    if (better && options_.on_improvement) options_.on_improvement(packing.arena);
  }

  void promote_blamed(Wheel& wheel) const {
    std::vector<std::pair<double, Index>> keyed;
    const Index n = problem_.count();
    keyed.reserve(n);
    for (Index k = 0; k < n; ++k) {
      const Index i = wheel.order[k];
      double key = k;
      if (wheel.packing.offset[i] + problem_.size[i] > options_.target) {
        key = wheel.promotion == Promotion::kHalfway ? 0.5 * key - 0.25 : key - n;
      }
      keyed.emplace_back(key, i);
    }
    std::stable_sort(keyed.begin(), keyed.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (Index k = 0; k < n; ++k) wheel.order[k] = keyed[k].second;
  }

  // The better half stays; each of the others starts again from a shaken copy of one of the better.
  void next_generation() {
    std::vector<std::size_t> ranking(wheels_.size());
    std::iota(ranking.begin(), ranking.end(), 0);
    std::stable_sort(ranking.begin(), ranking.end(),
                     [this](std::size_t a, std::size_t b) { return wheels_[a].best < wheels_[b].best; });
    std::mt19937_64 random(options_.seed * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(result_.rounds));
    for (std::size_t k = 0; k < ranking.size() / 2; ++k) {
      shake(wheels_[ranking[k]], wheels_[ranking[ranking.size() - 1 - k]], random);
    }
  }

  void shake(const Wheel& model, Wheel& copy, std::mt19937_64& random) const {
    copy.fit = random() % 2 ? Fit::kBest : Fit::kFirst;
    copy.promotion = random() % 2 ? Promotion::kHalfway : Promotion::kToFront;
    const double strength = 0.5 / static_cast<double>(1 + random() % 16);
    std::vector<std::pair<double, Index>> keyed;
    for (std::size_t k = 0; k < model.best_order.size(); ++k) {
      const double noise = static_cast<double>(random() >> 11) * 0x1p-53;
      keyed.emplace_back(static_cast<double>(k) * (1 + strength * noise), model.best_order[k]);
    }
    std::sort(keyed.begin(), keyed.end());
    copy.order.resize(keyed.size());
    for (std::size_t k = 0; k < keyed.size(); ++k) copy.order[k] = keyed[k].second;
    // Nothing to blame yet: the first turn packs the shaken order as it is.
    copy.packing.offset.assign(problem_.count(), 0);
    copy.best = std::numeric_limits<Bytes>::max();
  }

  const Problem& problem_;
  const ImproveOptions& options_;
  const Setting setting_;
  std::vector<std::unique_ptr<OrderPacker>> packers_;  // one a thread
  std::vector<Wheel> wheels_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> met_by_ = std::size(kStarts);
  std::mutex mutex_;
  std::exception_ptr error_;
  Improvement result_;
  bool has_packing_ = false;
  std::int64_t best_round_ = -1;
  std::size_t best_wheel_ = 0;
};

}  // namespace

Improvement improve(const Problem& problem, const ImproveOptions& options) {
  return Search(problem, options).run();
}

}  // namespace lowtide
