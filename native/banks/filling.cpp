#include "banks/filling.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "problem/conflicts.hpp"
#include "problem/ranks.hpp"

namespace lowtide {
namespace {

constexpr std::size_t kMostTaken = 32;  // buffers that are taken out at a time
constexpr std::uint64_t kShades = 1024;

class Filler {
 public:
  Filler(const Problem& problem, const std::vector<Cost>& gain, const std::vector<std::uint8_t>& chosen,
         std::vector<Bytes> offset)
      : problem_(problem),
        ranks_(problem),
        conflicts_(problem, ranks_),
        gain_(gain),
        chosen_(chosen),
        density_(problem.count(), 0.0) {
    out_.offset = std::move(offset);
    for (Index i = 0; i < problem.count(); ++i) {
      if (gain[i] <= 0 || problem.size[i] == 0) continue;
      by_start_.push_back(i);
      double lived = 0;
      for (Index k = problem.first[i]; k < problem.first[i + 1]; ++k) {
        lived += static_cast<double>(ranks_.spans[k].stop - ranks_.spans[k].start);
      }
      density_[i] = static_cast<double>(gain[i]) / (static_cast<double>(problem.size[i]) * lived);
      if (out_.offset[i] != kNone) out_.gain += gain[i];
    }
    std::stable_sort(by_start_.begin(), by_start_.end(), [&](Index a, Index b) {
      return ranks_.spans[problem.first[a]].start < ranks_.spans[problem.first[b]].start;
    });
  }

  BankFill run(const FillOptions& options) {
    std::mt19937_64 random(options.seed);
    const auto stopped = [&] { return options.stop != nullptr && *options.stop; };
    put_in_what_fits(stopped);
    for (; out_.rounds < options.rounds && by_start_.size() > 1 && !stopped(); ++out_.rounds) shake(random);
    return std::move(out_);
  }

 private:
  // What is outside: what was chosen first, from the largest down, then the best for its room.
  template <class Stopped>
  void put_in_what_fits(const Stopped& stopped) {
    std::vector<Index> order;
    for (const Index i : by_start_) {
      if (out_.offset[i] == kNone) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
      if (chosen_[a] != chosen_[b]) return chosen_[a] > chosen_[b];
      return chosen_[a] != 0 ? problem_.size[a] > problem_.size[b] : density_[a] > density_[b];
    });
    for (const Index i : order) {
      if (stopped()) return;
      out_.offset[i] = room_for(i, false);
      if (out_.offset[i] != kNone) out_.gain += gain_[i];
    }
  }

  void shake(std::mt19937_64& random) {
    const std::size_t most = std::min<std::size_t>(2 + random() % kMostTaken, by_start_.size());
    const std::size_t from = random() % (by_start_.size() - most + 1);
    const bool tight = random() % 2 == 0;
    taken_.clear();
    Cost change = 0;
    for (std::size_t k = from; k < from + most; ++k) {
      const Index i = by_start_[k];
      const auto shade = static_cast<double>(kShades + random() % kShades);
      taken_.push_back({shade * density_[i], i, out_.offset[i]});
      if (out_.offset[i] != kNone) change -= gain_[i];
      out_.offset[i] = kNone;
    }
    std::stable_sort(taken_.begin(), taken_.end(),
                     [](const Taken& a, const Taken& b) { return a.key > b.key; });
    for (const Taken& one : taken_) {
      out_.offset[one.buffer] = room_for(one.buffer, tight);
      if (out_.offset[one.buffer] != kNone) change += gain_[one.buffer];
    }
    if (change >= 0) {
      out_.gain += change;
      return;
    }
    for (const Taken& one : taken_) out_.offset[one.buffer] = one.before;
  }

  // The lowest offset at which a buffer fits, or that of the tightest gap; kNone if there is none.
  Bytes room_for(Index i, bool tight) {
    busy_.clear();
    conflicts_.visit(i, [&](Index j) {
      if (j != i && out_.offset[j] != kNone) {
        busy_.emplace_back(out_.offset[j], out_.offset[j] + problem_.size[j]);
      }
    });
    busy_.emplace_back(problem_.capacity, problem_.capacity);
    std::sort(busy_.begin(), busy_.end());
    const Bytes unit = problem_.alignment[i], size = problem_.size[i];
    Bytes low = problem_.reserved, best = kNone, least = 0;
    for (const auto& [begin, end] : busy_) {
      const Bytes at = low + (unit - low % unit) % unit;
      if (at + size <= begin) {
        if (!tight) return at;
        if (best == kNone || begin - low < least) {
          best = at;
          least = begin - low;
        }
      }
      low = std::max(low, end);
    }
    return best;
  }

  struct Taken {
    double key;
    Index buffer;
    Bytes before;
  };

  const Problem& problem_;
  const Ranks ranks_;
  const Conflicts conflicts_;
  const std::vector<Cost>& gain_;
  const std::vector<std::uint8_t>& chosen_;
  std::vector<double> density_;  // gain for a byte and an instant
  std::vector<Index> by_start_;  // those that may move
  std::vector<Taken> taken_;
  std::vector<std::pair<Bytes, Bytes>> busy_;
  BankFill out_;
};

}  // namespace

BankFill fill_bank(const Problem& problem, const std::vector<Cost>& gain,
                   const std::vector<std::uint8_t>& chosen, std::vector<Bytes> offset,
                   const FillOptions& options) {
  return Filler(problem, gain, chosen, std::move(offset)).run(options);
}

}  // namespace lowtide
