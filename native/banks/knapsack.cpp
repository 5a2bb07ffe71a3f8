#include "banks/knapsack.hpp"

#include <algorithm>
#include <memory>

#include "banks/agenda.hpp"
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

// What is known of a part of the agenda: excess that no choice is below, and whether the incumbent has it.
struct Progress {
  Cost least = 0;
  bool solved = false;
};

class Chooser {
 public:
  Chooser(const BankProblem& problem, const BankOptions& options)
      : options_(options), r_(problem), left_(options.states) {}

  BankChoice run() {
    if (r_.count() == 0) return out_;
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
    price();
    for (std::int64_t width = kFirstWidth; !done(); width *= kWiden) {
      if (!pass(width) || width > options_.states) break;  // a wider pass would drop nothing less
      if (width == kFirstWidth && !done()) {
        improve(r_, options_.seed, improve_rounds(), options_.stop, best_);
        price();
      }
    }
    out_.bank = best_.bank;
    out_.cost = best_.cost;
    out_.bound = best_.known() ? std::min(bound_, best_.cost) : bound_;
    out_.states = options_.states - left_;
    return out_;
  }

 private:
  // What no choice that is of interest costs more than.
  Cost upper() const { return best_.known() ? best_.cost : top_; }
  bool done() const {
    return out_.infeasible || (best_.known() && bound_ >= best_.cost) ||
           (options_.stop != nullptr && *options_.stop);
  }

  std::int64_t improve_rounds() const {
    return std::min<std::int64_t>(kImproveRounds,
                                  kRoundsAnItem * static_cast<std::int64_t>(r_.open().size()));
  }

  // Finds prices, and settles what they show to be dearer elsewhere than the incumbent, as long as that
  // helps.
  void price() {
    for (int round = 0; round < kSettlings; ++round) {
      const auto work = static_cast<std::int64_t>(r_.open().size() * r_.banks()) +
                        std::int64_t{r_.segments()} * r_.banks() + 1;
      const std::int64_t rounds = std::clamp(kPriceWork / work, kLeastRounds, kMostRounds);
      prices_ = find_prices(r_, upper(), static_cast<int>(rounds), options_.stop);
      place_in_orders(r_, &prices_, best_);
      start_from_incumbent();
      agenda_ = std::make_unique<Agenda>(r_);
      progress_.assign(agenda_->parts().size(), {});
      out_.left = static_cast<Index>(r_.open().size());
      raise_bound();
      if (done() || round + 1 == kSettlings || !settle_by_price()) return;
    }
  }

  // What is settled is so because it costs no more there and is in nobody's way: so it is for the incumbent.
  void start_from_incumbent() {
    draft_ = best_.bank;
    draft_.resize(r_.count(), -1);
    for (Index i = 0; i < r_.count(); ++i) {
      if (r_.settled(i) >= 0) draft_[i] = r_.settled(i);
    }
    if (best_.known()) best_ = {draft_, cost_of(r_.problem(), draft_)};
  }

  void raise_bound() {
    Cost total = prices_.total;
    for (const Progress& part : progress_) total += part.least;
    bound_ = std::max(bound_, ceil_div(total, prices_.scale));
  }

  // Excess that is of no interest to be beyond, over a part. Parts are apart: what is worse than the
  // incumbent in one of them is no part of a best choice.
  Cost budget_of(const Part& part) const {
    if (!best_.known()) return top_ * prices_.scale - prices_.total;
    return excess_of(r_, prices_, *agenda_, part, best_.bank);
  }

  bool settle_by_price() {
    bool changed = false;
    for (const Part& part : agenda_->parts()) {
      const Cost budget = budget_of(part);
      for (std::size_t m = part.low; m < part.high; ++m) {
        for (const Index i : agenda_->moments()[m].decided) changed |= forbid_beyond(i, budget);
      }
    }
    return changed && r_.settle();  // the incumbent is never forbidden, so what is left can be settled
  }

  bool forbid_beyond(Index i, Cost budget) {
    bool changed = false;
    for (Index b = 0; b < r_.banks(); ++b) {
      if (!r_.allowed(i, b) || prices_.priced[r_.cell(i, b)] - prices_.least[i] <= budget) continue;
      r_.forbid(i, b);
      changed = true;
    }
    return changed;
  }

  // A pass over every part that is not solved yet. False if the states are used up.
  bool pass(std::int64_t width) {
    const bool known = best_.known();
    bool all_found = true, in_time = true;
    for (std::size_t p = 0; p < progress_.size(); ++p) {
      if (progress_[p].solved) continue;
      const Part& part = agenda_->parts()[p];
      const Cost budget = budget_of(part);
      const Swept found = sweep(r_, prices_, *agenda_, part, {width, left_, budget, options_.stop});
      left_ -= found.states;
      all_found &= found.found;
      if (!found.finished) {
        in_time = false;
        break;
      }
      for (const Pick& pick : found.picks) draft_[pick.item] = pick.bank;
      const Cost least = std::min(found.least, budget);
      progress_[p].least = std::max(progress_[p].least, least);
      // A part without a choice within the budget has none at all, if there is no incumbent.
      if (!known && !found.found && found.least > budget) out_.infeasible = true;
      progress_[p].solved =
          known ? least >= (found.found ? found.excess : budget) : found.found && least >= found.excess;
    }
    // What was found anew may stand beside what the incumbent has elsewhere.
    if (known || all_found) {
      const Cost cost = cost_of(r_.problem(), draft_);
      if (!known || cost < best_.cost) best_ = {draft_, cost};
    }
    raise_bound();
    return in_time;
  }

  const BankOptions& options_;
  Reduction r_;
  std::int64_t left_;
  Cost top_ = 0;
  Cost bound_ = 0;
  Incumbent best_;
  std::vector<Index> draft_;  // what was found of each part, and else the incumbent
  Prices prices_;
  std::unique_ptr<Agenda> agenda_;
  std::vector<Progress> progress_;
  BankChoice out_;
};

}  // namespace

BankChoice choose_banks(const BankProblem& problem, const BankOptions& options) {
  return Chooser(problem, options).run();
}

}  // namespace lowtide
