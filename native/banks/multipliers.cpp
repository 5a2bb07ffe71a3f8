#include "banks/multipliers.hpp"

#include <algorithm>
#include <cmath>

namespace lowtide {
namespace {

__extension__ typedef __int128 Wide;

constexpr Cost kMostScale = Cost{1} << 20;
constexpr Wide kMostPriced = Wide{1} << 60;  // so that a few of them still add up in 64 bits
constexpr int kPatience = 12;                // rounds without a better bound until steps are halved
constexpr double kLeastStep = 1e-5;

// Prices in floating point, and the steps that improve them.
class Subgradient {
 public:
  Subgradient(const Reduction& reduction, double upper)
      : r_(reduction), upper_(upper), price_(pairs(), 0.0), best_(pairs(), 0.0), direction_(pairs(), 0.0) {}

  std::vector<double> run(int rounds, const std::atomic<bool>* stop) {
    double step = 1.0;
    int since = 0;
    for (int round = 0; round < rounds && step > kLeastStep; ++round) {
      if (stop != nullptr && *stop) break;
      const double bound = relax();
      if (round == 0 || bound > bound_ + 1e-9 * std::abs(bound_)) {
        bound_ = bound;
        best_ = price_;
        since = 0;
      } else if (++since >= kPatience) {
        step /= 2;
        since = 0;
        price_ = best_;
        std::fill(direction_.begin(), direction_.end(), 0.0);
        continue;
      }
      if (bound_ >= upper_ || !move(step, bound)) break;
    }
    return best_;
  }

 private:
  std::size_t pairs() const { return static_cast<std::size_t>(r_.banks()) * r_.segments(); }

  // The bound at the current prices; leaves in excess_ what each bank would hold beyond its room.
  double relax() {
    const Index segments = r_.segments();
    before_.assign(static_cast<std::size_t>(r_.banks()) * (segments + 1), 0.0);
    excess_.assign(pairs(), 0.0);
    double bound = 0;
    for (Index b = 0; b < r_.banks(); ++b) {
      double* row = before_.data() + static_cast<std::size_t>(b) * (segments + 1);
      for (Index s = 0; s < segments; ++s) {
        row[s + 1] = row[s] + price_[r_.at(b, s)];
        bound -= price_[r_.at(b, s)] * static_cast<double>(r_.room(b, s));
      }
    }
    change_.assign(static_cast<std::size_t>(r_.banks()) * (segments + 1), 0.0);
    for (const Index i : r_.open()) bound += place(i);
    for (Index b = 0; b < r_.banks(); ++b) {
      double held = 0;
      for (Index s = 0; s < segments; ++s) {
        held += change_[static_cast<std::size_t>(b) * (segments + 1) + s];
        if (r_.binds(b, s)) excess_[r_.at(b, s)] = held - static_cast<double>(r_.room(b, s));
      }
    }
    for (Index i = 0; i < r_.count(); ++i) {
      if (r_.settled(i) >= 0) bound += static_cast<double>(r_.cost(i, r_.settled(i)));
    }
    return bound;
  }

  // Puts an item where it is cheapest; returns what it costs there.
  double place(Index i) {
    Index best = -1;
    double least = 0;
    for (Index b = 0; b < r_.banks(); ++b) {
      if (!r_.allowed(i, b)) continue;
      const double* row = before_.data() + static_cast<std::size_t>(b) * (r_.segments() + 1);
      double cost = static_cast<double>(r_.cost(i, b));
      for (const Span* s = r_.begin(i); s != r_.end(i); ++s) {
        cost += static_cast<double>(s->weight) * (row[s->high] - row[s->low]);
      }
      if (best < 0 || cost < least) {
        best = b;
        least = cost;
      }
    }
    double* row = change_.data() + static_cast<std::size_t>(best) * (r_.segments() + 1);
    for (const Span* s = r_.begin(i); s != r_.end(i); ++s) {
      row[s->low] += static_cast<double>(s->weight);
      row[s->high] -= static_cast<double>(s->weight);
    }
    return least;
  }

  // A step along the subgradient, bent by the last direction so that it does not zigzag (Camerini, Fratta and
  // Maffioli, 1975). False if there is nowhere to go.
  bool move(double step, double bound) {
    double dot = 0, square = 0;
    for (std::size_t k = 0; k < excess_.size(); ++k) {
      if (price_[k] <= 0 && excess_[k] < 0) excess_[k] = 0;
      dot += excess_[k] * direction_[k];
      square += direction_[k] * direction_[k];
    }
    const double bend = square > 0 ? std::max(0.0, -1.5 * dot / square) : 0.0;
    double length = 0;
    for (std::size_t k = 0; k < excess_.size(); ++k) {
      direction_[k] = excess_[k] + bend * direction_[k];
      length += direction_[k] * direction_[k];
    }
    if (length <= 0) return false;
    const double by = step * std::max(upper_ - bound, 1e-6 * std::abs(upper_) + 1.0) / length;
    for (std::size_t k = 0; k < price_.size(); ++k) price_[k] = std::max(0.0, price_[k] + by * direction_[k]);
    return true;
  }

  const Reduction& r_;
  double upper_;
  double bound_ = 0;
  std::vector<double> price_, best_, direction_, excess_, before_, change_;
};

// The bound that rounded prices prove; false if they are too large to be added up in 64 bits.
bool price_all(const Reduction& r, const std::vector<double>& price, Prices& out) {
  out.price.assign(price.size(), 0);
  std::vector<Wide> before(static_cast<std::size_t>(r.banks()) * (r.segments() + 1), 0);
  Wide bound = 0;
  for (Index b = 0; b < r.banks(); ++b) {
    Wide* row = before.data() + static_cast<std::size_t>(b) * (r.segments() + 1);
    for (Index s = 0; s < r.segments(); ++s) {
      const std::size_t k = r.at(b, s);
      const double scaled = price[k] * static_cast<double>(out.scale);
      if (scaled >= 0x1p60) return false;
      if (r.binds(b, s)) out.price[k] = static_cast<Cost>(scaled + 0.5);
      row[s + 1] = row[s] + out.price[k];
      bound -= Wide{out.price[k]} * r.room(b, s);
    }
  }
  if (-bound >= kMostPriced) return false;
  out.priced.assign(static_cast<std::size_t>(r.count()) * r.banks(), 0);
  out.least.assign(r.count(), 0);
  for (Index i = 0; i < r.count(); ++i) {
    bool first = true;
    for (Index b = 0; b < r.banks(); ++b) {
      if (!r.allowed(i, b)) continue;
      Wide cost = Wide{r.cost(i, b)} * out.scale;
      const Wide* row = before.data() + static_cast<std::size_t>(b) * (r.segments() + 1);
      for (const Span* s = r.begin(i); s != r.end(i) && r.settled(i) < 0; ++s) {
        cost += (row[s->high] - row[s->low]) * s->weight;
      }
      if (cost >= kMostPriced) return false;
      out.priced[r.cell(i, b)] = static_cast<Cost>(cost);
      if (first || cost < out.least[i]) out.least[i] = static_cast<Cost>(cost);
      first = false;
    }
    bound += out.least[i];
  }
  if (bound >= kMostPriced) return false;
  out.total = static_cast<Cost>(bound);
  out.bound = ceil_div(out.total, out.scale);
  return true;
}

}  // namespace

Cost ceil_div(Cost value, Cost by) { return value / by + (value % by > 0 ? 1 : 0); }

Prices find_prices(const Reduction& reduction, Cost upper, int rounds, const std::atomic<bool>* stop) {
  Subgradient search(reduction, static_cast<double>(upper));
  const std::vector<double> price = search.run(rounds, stop);
  Prices out;
  for (out.scale = kMostScale; out.scale > 1; out.scale /= 4) {
    if (Wide{upper} * out.scale < kMostPriced && price_all(reduction, price, out)) return out;
  }
  out.scale = 1;
  if (price_all(reduction, price, out)) return out;
  price_all(reduction, std::vector<double>(price.size(), 0.0), out);
  return out;
}

}  // namespace lowtide
