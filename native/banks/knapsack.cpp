#include "banks/knapsack.hpp"

#include <algorithm>

#include "banks/multipliers.hpp"
#include "banks/placing.hpp"
#include "banks/reduction.hpp"
#include "banks/sweep.hpp"

namespace lowtide {
namespace {

constexpr int kSettlings = 4;  // how often prices may settle items, and be found anew
constexpr std::int64_t kPriceWork = 200'000'000;
constexpr std::int64_t kLeastRounds = 60, kMostRounds = 1'500;
constexpr std::int64_t kRoundsAnItem = 20, kImproveRounds = 200'000;
constexpr std::int64_t kFirstWidth = 64, kWiden = 8;

class Chooser {
 public:
  Chooser(const BankProblem& problem, const BankOptions& options)
      : problem_(problem), options_(options), r_(problem), left_(options.states) {}

  BankChoice run() {
    if (!r_.settle()) {
      out_.infeasible = true;
      return out_;
    }
    top_ = 1;
    for (Index i = 0; i < r_.count(); ++i) {
      Cost most = 0;
      for (Index b = 0; b < r_.banks(); ++b) {
        if (r_.allowed(i, b)) most = std::max(most, r_.cost(i, b));
      }
      top_ += most;
    }
    place_in_orders(r_, nullptr, best_);
    price_and_settle();
    if (!done()) sweeps();
    out_.bank = best_.bank;
    out_.cost = best_.known() ? best_.cost : 0;
    out_.bound = best_.known() ? std::min(bound_, best_.cost) : bound_;
    out_.states = options_.states - left_;
    return out_;
  }

 private:
  // What a better choice must be below.
  Cost upper() const { return best_.known() ? best_.cost : top_; }
  bool done() const { return bound_ >= upper() || stopped(); }
  bool stopped() const { return options_.stop != nullptr && *options_.stop; }

  // Prices settle items: one that would lift the bound to the best cost known cannot go there.
  void price_and_settle() {
    for (int round = 0; round < kSettlings; ++round) {
      const auto work = static_cast<std::int64_t>(r_.open().size() * r_.banks()) +
                        std::int64_t{r_.segments()} * r_.banks() + 1;
      const std::int64_t rounds = std::clamp(kPriceWork / work, kLeastRounds, kMostRounds);
      prices_ = find_prices(r_, upper(), static_cast<int>(rounds), options_.stop);
      out_.left = static_cast<Index>(r_.open().size());
      bound_ = std::max(bound_, prices_.bound);
      if (done()) return;
      place_in_orders(r_, &prices_, best_);
      if (round == 0) improve(r_, options_.seed, improve_rounds(), options_.stop, best_);
      if (done() || round + 1 == kSettlings || !settle_by_price()) return;
    }
  }

  std::int64_t improve_rounds() const {
    return std::min<std::int64_t>(kImproveRounds,
                                  kRoundsAnItem * static_cast<std::int64_t>(r_.open().size()));
  }

  // Whether anything changed, so that prices must be found anew. Sets the bound if nothing better is left.
  bool settle_by_price() {
    const Cost budget = (upper() - 1) * prices_.scale - prices_.total;
    bool changed = false;
    for (const Index i : r_.open()) {
      for (Index b = 0; b < r_.banks(); ++b) {
        if (!r_.allowed(i, b) || prices_.priced[r_.cell(i, b)] - prices_.least[i] <= budget) continue;
        r_.forbid(i, b);
        changed = true;
      }
    }
    if (!changed) return false;
    if (!r_.settle()) bound_ = upper();
    return bound_ < upper();
  }

  // Ever wider passes over time, until one leaves nothing out or the states are used up.
  void sweeps() {
    for (std::int64_t width = kFirstWidth; !done(); width *= kWiden) {
      const Cost upper_before = upper();
      Swept found = sweep(r_, prices_, {width, left_, upper_before, options_.stop});
      left_ -= found.states;
      if (!found.finished) return;
      if (!found.bank.empty() && found.cost < upper_before) best_ = {std::move(found.bank), found.cost};
      bound_ = std::max(bound_, found.bound);
      if (!best_.known() && bound_ >= top_) out_.infeasible = true;
      if (done()) return;
      if (best_.known() && best_.cost < upper_before && settle_by_price()) price_and_settle();
    }
  }

  const BankProblem& problem_;
  const BankOptions& options_;
  Reduction r_;
  std::int64_t left_;
  Cost top_ = 0;
  Cost bound_ = 0;
  Incumbent best_;
  Prices prices_;
  BankChoice out_;
};

}  // namespace

BankChoice choose_banks(const BankProblem& problem, const BankOptions& options) {
  return Chooser(problem, options).run();
}

}  // namespace lowtide
