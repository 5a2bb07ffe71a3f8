#include "banks/sweep.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace lowtide {
namespace {

constexpr Cost kNoLimit = std::numeric_limits<Cost>::max();
constexpr int kBankBits = 4;

// How a state came about: the one before, and what was decided.
struct Link {
  std::int32_t before;
  std::uint32_t item_and_bank;
};

// All states at a moment, one field after the other.
struct Frontier {
  std::vector<std::uint64_t> memory;  // `words` of each
  std::vector<Bytes> held;            // of each, by bank
  std::vector<Cost> excess;
  std::vector<std::int32_t> link;

  std::size_t size() const { return excess.size(); }
  void clear() {
    memory.clear();
    held.clear();
    excess.clear();
    link.clear();
  }
};

class Sweep {
 public:
  Sweep(const Reduction& r, const Prices& prices, const Agenda& agenda, const SweepLimits& limits)
      : r_(r), prices_(prices), agenda_(agenda), limits_(limits), words_(agenda.words()) {}

  Swept run(const Part& part) {
    Swept out;
    now_.memory.assign(words_, 0);
    now_.held.assign(r_.banks(), 0);
    now_.excess.push_back(0);
    now_.link.push_back(-1);
    for (std::size_t m = part.low; m < part.high && now_.size() > 0; ++m) {
      const Moment& moment = agenda_.moments()[m];
      for (const Change& change : moment.changes) apply(change);
      for (const Index i : moment.decided) {
        decide(i, moment);
        if (now_.size() > static_cast<std::size_t>(limits_.width)) keep_best();
        if (gave_up()) {
          out.states = made_;
          return out;
        }
      }
      if (moment.binds) hold(moment.segment);
      if (!moment.forgotten.empty()) forget(moment.forgotten);
    }
    return finish();
  }

 private:
  bool gave_up() const {
    return made_ > limits_.states ||
           (limits_.stop != nullptr && limits_.stop->load(std::memory_order_relaxed));
  }

  std::uint64_t* memory(Frontier& f, std::size_t k) { return f.memory.data() + k * words_; }

  Index bank_of(Frontier& f, std::size_t k, Slot slot) {
    return static_cast<Index>(memory(f, k)[slot.at / 64] >> (slot.at % 64) & ((1U << slot.width) - 1));
  }

  void apply(const Change& change) {
    const Slot slot = agenda_.slot(change.item);
    for (std::size_t k = 0; k < now_.size(); ++k) {
      now_.held[k * r_.banks() + bank_of(now_, k, slot)] += change.weight;
    }
  }

  // Every state goes on with the item in each bank where it fits.
  void decide(Index i, const Moment& moment) {
    next_.clear();
    const Index banks = r_.banks();
    const Slot slot = agenda_.slot(i);
    const Bytes weight = agenda_.weight_first(i);
    for (std::size_t k = 0; k < now_.size(); ++k) {
      for (Index b = 0; b < banks; ++b) {
        if (!r_.allowed(i, b)) continue;
        const Cost excess = now_.excess[k] + prices_.priced[r_.cell(i, b)] - prices_.least[i];
        if (excess > limits_.budget) continue;
        const Bytes held = now_.held[k * banks + b] + weight;
        if (r_.binds(b, moment.segment) && held > r_.room(b, moment.segment)) continue;
        const std::size_t at = next_.size();
        next_.memory.insert(next_.memory.end(), memory(now_, k), memory(now_, k) + words_);
        next_.held.insert(next_.held.end(), now_.held.begin() + static_cast<std::ptrdiff_t>(k * banks),
                          now_.held.begin() + static_cast<std::ptrdiff_t>((k + 1) * banks));
        next_.held[at * banks + b] = held;
        next_.excess.push_back(excess);
        memory(next_, at)[slot.at / 64] |= static_cast<std::uint64_t>(b) << (slot.at % 64);
        if (!keep_cuts(i, b, memory(next_, at))) {
          next_.memory.resize(at * words_);
          next_.held.resize(at * banks);
          next_.excess.pop_back();
          continue;
        }
        next_.link.push_back(static_cast<std::int32_t>(links_.size()));
        links_.push_back(
            {now_.link[k], static_cast<std::uint32_t>(i) << kBankBits | static_cast<std::uint32_t>(b)});
      }
    }
    made_ += static_cast<std::int64_t>(next_.size());
    std::swap(now_, next_);
  }

  // False if the choice completes a set that is cut off.
  bool keep_cuts(Index i, Index b, std::uint64_t* memory) const {
    for (const Index c : agenda_.cuts(i)) {
      const Index bit = agenda_.cut_bit(c);
      const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
      if (i == agenda_.cut_first(c)) memory[bit / 64] |= mask;
      if (b != r_.problem().cuts[c].bank) memory[bit / 64] &= ~mask;
      if (i == agenda_.cut_last(c)) {
        if ((memory[bit / 64] & mask) != 0) return false;
        memory[bit / 64] &= ~mask;
      }
    }
    return true;
  }

  // The states that are closest to the bound; what is dropped is remembered by its best.
  void keep_best() {
    const auto width = static_cast<std::ptrdiff_t>(limits_.width);
    std::vector<std::uint32_t> order(now_.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto better = [&](std::uint32_t a, std::uint32_t b) {
      return now_.excess[a] != now_.excess[b] ? now_.excess[a] < now_.excess[b] : a < b;
    };
    std::nth_element(order.begin(), order.begin() + width, order.end(), better);
    dropped_ = std::min(dropped_, now_.excess[order[width]]);
    order.resize(width);
    std::sort(order.begin(), order.end());
    take(order);
  }

  void take(const std::vector<std::uint32_t>& order) {
    next_.clear();
    const Index banks = r_.banks();
    for (const std::uint32_t k : order) {
      next_.memory.insert(next_.memory.end(), memory(now_, k), memory(now_, k) + words_);
      const auto held = now_.held.begin() + static_cast<std::ptrdiff_t>(k) * banks;
      next_.held.insert(next_.held.end(), held, held + banks);
      next_.excess.push_back(now_.excess[k]);
      next_.link.push_back(now_.link[k]);
    }
    std::swap(now_, next_);
  }

  // Drops what holds more than there is room for; unused room has its price.
  void hold(Index segment) {
    const Index banks = r_.banks();
    std::vector<std::uint32_t> kept;
    for (std::size_t k = 0; k < now_.size(); ++k) {
      bool fits = true;
      Cost excess = now_.excess[k];
      for (Index b = 0; b < banks && fits; ++b) {
        if (!r_.binds(b, segment)) continue;
        const Bytes left = r_.room(b, segment) - now_.held[k * banks + b];
        fits = left >= 0;
        // In excess of the budget, and so beyond what a product might overflow to.
        const Cost price = prices_.price[r_.at(b, segment)];
        if (fits && price > 0 && left > 0) {
          fits = left <= (limits_.budget - excess) / price;
          if (fits) excess += price * left;
        }
      }
      if (!fits || excess > limits_.budget) continue;
      now_.excess[k] = excess;
      kept.push_back(static_cast<std::uint32_t>(k));
    }
    if (kept.size() != now_.size()) take(kept);
  }

  // Forgets items, and makes one of states that then remember the same.
  void forget(const std::vector<Index>& items) {
    const Index banks = r_.banks();
    for (const Index i : items) {
      const Slot slot = agenda_.slot(i);
      const std::uint64_t mask = ~(static_cast<std::uint64_t>((1U << slot.width) - 1) << (slot.at % 64));
      for (std::size_t k = 0; k < now_.size(); ++k) {
        now_.held[k * banks + bank_of(now_, k, slot)] -= agenda_.weight_last(i);
        memory(now_, k)[slot.at / 64] &= mask;
      }
    }
    std::size_t places = 16;
    while (places < 2 * now_.size()) places *= 2;
    std::vector<std::int32_t> table(places, -1);
    std::vector<std::uint32_t> kept;
    for (std::size_t k = 0; k < now_.size(); ++k) {
      std::size_t place = hash(memory(now_, k)) & (places - 1);
      while (table[place] >= 0 && !same(k, kept[table[place]])) place = (place + 1) & (places - 1);
      if (table[place] < 0) {
        table[place] = static_cast<std::int32_t>(kept.size());
        kept.push_back(static_cast<std::uint32_t>(k));
      } else if (now_.excess[k] < now_.excess[kept[table[place]]]) {
        kept[table[place]] = static_cast<std::uint32_t>(k);
      }
    }
    if (kept.size() != now_.size()) take(kept);
  }

  bool same(std::size_t a, std::size_t b) {
    return std::equal(memory(now_, a), memory(now_, a) + words_, memory(now_, b));
  }

  std::size_t hash(const std::uint64_t* memory) const {
    std::uint64_t h = 0x9E3779B97F4A7C15ULL;
    for (Index w = 0; w < words_; ++w) {
      h = (h ^ memory[w]) * 0xBF58476D1CE4E5B9ULL;
      h ^= h >> 29;
    }
    return h;
  }

  Swept finish() {
    Swept out;
    out.finished = true;
    out.states = made_;
    out.least = dropped_;
    if (now_.size() == 0) return out;
    const auto best = std::min_element(now_.excess.begin(), now_.excess.end());
    out.found = true;
    out.excess = *best;
    out.least = std::min(out.least, *best);
    for (std::int32_t at = now_.link[best - now_.excess.begin()]; at >= 0; at = links_[at].before) {
      const std::uint32_t decided = links_[at].item_and_bank;
      out.picks.push_back(
          {static_cast<Index>(decided >> kBankBits), static_cast<Index>(decided & ((1U << kBankBits) - 1))});
    }
    return out;
  }

  const Reduction& r_;
  const Prices& prices_;
  const Agenda& agenda_;
  const SweepLimits& limits_;
  Index words_;
  Cost dropped_ = kNoLimit;
  std::int64_t made_ = 0;
  Frontier now_, next_;
  std::vector<Link> links_;
};

}  // namespace

Swept sweep(const Reduction& reduction, const Prices& prices, const Agenda& agenda, const Part& part,
            const SweepLimits& limits) {
  return Sweep(reduction, prices, agenda, limits).run(part);
}

Cost excess_of(const Reduction& reduction, const Prices& prices, const Agenda& agenda, const Part& part,
               const std::vector<Index>& bank) {
  Cost excess = 0;
  std::vector<Bytes> held(reduction.banks(), 0);
  for (std::size_t m = part.low; m < part.high; ++m) {
    const Moment& moment = agenda.moments()[m];
    for (const Change& change : moment.changes) held[bank[change.item]] += change.weight;
    for (const Index i : moment.decided) {
      held[bank[i]] += agenda.weight_first(i);
      excess += prices.priced[reduction.cell(i, bank[i])] - prices.least[i];
    }
    for (Index b = 0; b < reduction.banks() && moment.binds; ++b) {
      if (!reduction.binds(b, moment.segment)) continue;
      excess += prices.price[reduction.at(b, moment.segment)] * (reduction.room(b, moment.segment) - held[b]);
    }
    for (const Index i : moment.forgotten) held[bank[i]] -= agenda.weight_last(i);
  }
  return excess;
}

}  // namespace lowtide
