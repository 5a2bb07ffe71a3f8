#include "banks/placing.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace lowtide {
namespace {

constexpr Index kMostTaken = 24;  // items that are taken out at a time

// Bytes times segments that an item holds.
double area(const Reduction& r, Index i) {
  double sum = 0;
  for (const Span* s = r.begin(i); s != r.end(i); ++s) {
    sum += static_cast<double>(s->weight) * static_cast<double>(s->high - s->low);
  }
  return sum;
}

double heaviest(const Reduction& r, Index i) {
  Bytes most = 0;
  for (const Span* s = r.begin(i); s != r.end(i); ++s) most = std::max(most, s->weight);
  return static_cast<double>(most);
}

// What is at stake for an item: its dearest bank against its cheapest.
double stake(const Reduction& r, Index i) {
  Cost least = -1, most = 0;
  for (Index b = 0; b < r.banks(); ++b) {
    if (!r.allowed(i, b)) continue;
    if (least < 0 || r.cost(i, b) < least) least = r.cost(i, b);
    most = std::max(most, r.cost(i, b));
  }
  return static_cast<double>(most - least);
}

// The same where bytes have their price: positive if the item is worth the room in its cheapest bank.
double priced_stake(const Reduction& r, const Prices& prices, Index i) {
  Index cheapest = -1;
  Cost other = -1;
  for (Index b = 0; b < r.banks(); ++b) {
    if (r.allowed(i, b) && (cheapest < 0 || r.cost(i, b) < r.cost(i, cheapest))) cheapest = b;
  }
  for (Index b = 0; b < r.banks(); ++b) {
    if (!r.allowed(i, b) || b == cheapest) continue;
    const Cost cost = prices.priced[r.cell(i, b)];
    if (other < 0 || cost < other) other = cost;
  }
  return other < 0 ? 0.0 : static_cast<double>(other - prices.priced[r.cell(i, cheapest)]);
}

// The allowed bank with room that costs least; -1 if there is none.
Index cheapest_with_room(const Reduction& r, const Room& room, Index i) {
  Index best = -1;
  for (Index b = 0; b < r.banks(); ++b) {
    if (!r.allowed(i, b) || (best >= 0 && r.cost(i, b) >= r.cost(i, best))) continue;
    if (room.fits(i, b)) best = b;
  }
  return best;
}

void offer(const Reduction& r, const std::vector<Index>& bank, Incumbent& incumbent) {
  const Cost cost = cost_of(r.problem(), bank);
  if (incumbent.known() && cost >= incumbent.cost) return;
  if (keeps_cuts(r.problem(), bank)) incumbent = {bank, cost};
}

void place_in_order(const Reduction& r, const std::vector<double>& key, Incumbent& incumbent) {
  std::vector<Index> order = r.open(), bank(r.count());
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return key[a] > key[b]; });
  for (Index i = 0; i < r.count(); ++i) bank[i] = r.settled(i);
  Room room(r);
  for (const Index i : order) {
    bank[i] = cheapest_with_room(r, room, i);
    if (bank[i] < 0) return;
    room.put(i, bank[i]);
  }
  offer(r, bank, incumbent);
}

}  // namespace

Room::Room(const Reduction& reduction) : r_(reduction), trees_(reduction.banks()) {
  if (r_.segments() == 0) return;
  for (Index b = 0; b < r_.banks(); ++b) {
    trees_[b].resize(4 * static_cast<std::size_t>(r_.segments()));
    build(trees_[b], b, 1, 0, r_.segments());
  }
}

void Room::build(std::vector<Node>& tree, Index bank, std::size_t node, Index low, Index high) {
  if (high - low == 1) {
    tree[node].least = r_.room(bank, low);
    return;
  }
  const Index middle = low + (high - low) / 2;
  build(tree, bank, 2 * node, low, middle);
  build(tree, bank, 2 * node + 1, middle, high);
  tree[node].least = std::min(tree[2 * node].least, tree[2 * node + 1].least);
}

void Room::add(std::vector<Node>& tree, std::size_t node, Index low, Index high, const Span& span, Bytes by) {
  if (span.high <= low || high <= span.low) return;
  if (span.low <= low && high <= span.high) {
    tree[node].least += by;
    tree[node].added += by;
    return;
  }
  const Index middle = low + (high - low) / 2;
  add(tree, 2 * node, low, middle, span, by);
  add(tree, 2 * node + 1, middle, high, span, by);
  tree[node].least = std::min(tree[2 * node].least, tree[2 * node + 1].least) + tree[node].added;
}

Bytes Room::least(const std::vector<Node>& tree, std::size_t node, Index low, Index high,
                  const Span& span) const {
  if (span.high <= low || high <= span.low) return std::numeric_limits<Bytes>::max() / 2;
  if (span.low <= low && high <= span.high) return tree[node].least;
  const Index middle = low + (high - low) / 2;
  return std::min(least(tree, 2 * node, low, middle, span), least(tree, 2 * node + 1, middle, high, span)) +
         tree[node].added;
}

bool Room::fits(Index item, Index bank) const {
  return std::all_of(r_.begin(item), r_.end(item), [&](const Span& span) {
    return least(trees_[bank], 1, 0, r_.segments(), span) >= span.weight;
  });
}

void Room::change(Index item, Index bank, int sign) {
  for (const Span* s = r_.begin(item); s != r_.end(item); ++s) {
    add(trees_[bank], 1, 0, r_.segments(), *s, sign * s->weight);
  }
}

bool keeps_cuts(const BankProblem& problem, const std::vector<Index>& bank) {
  return std::none_of(problem.cuts.begin(), problem.cuts.end(), [&](const Cut& cut) {
    return std::all_of(cut.items.begin(), cut.items.end(), [&](Index i) { return bank[i] == cut.bank; });
  });
}

Cost cost_of(const BankProblem& problem, const std::vector<Index>& bank) {
  Cost sum = 0;
  for (std::size_t i = 0; i < bank.size(); ++i) {
    sum += problem.cost[i * static_cast<std::size_t>(problem.banks) + static_cast<std::size_t>(bank[i])];
  }
  return sum;
}

void place_in_orders(const Reduction& reduction, const Prices* prices, Incumbent& incumbent) {
  std::vector<double> key(reduction.count());
  const auto attempt = [&](auto&& of) {
    for (const Index i : reduction.open()) key[i] = of(i);
    place_in_order(reduction, key, incumbent);
  };
  if (prices != nullptr) {
    attempt([&](Index i) { return priced_stake(reduction, *prices, i); });
    return;
  }
  attempt([&](Index i) { return stake(reduction, i) / std::max(area(reduction, i), 1.0); });
  attempt([&](Index i) { return stake(reduction, i) / std::max(heaviest(reduction, i), 1.0); });
  attempt([&](Index i) { return stake(reduction, i); });
  attempt([&](Index i) { return heaviest(reduction, i); });
}

void improve(const Reduction& r, std::uint64_t seed, std::int64_t rounds, const std::atomic<bool>* stop,
             Incumbent& incumbent) {
  if (!incumbent.known() || r.open().size() < 2) return;
  std::vector<Index> by_start = r.open(), bank = incumbent.bank;
  std::stable_sort(by_start.begin(), by_start.end(),
                   [&](Index a, Index b) { return r.begin(a)->low < r.begin(b)->low; });
  Room room(r);
  for (const Index i : by_start) room.put(i, bank[i]);
  std::mt19937_64 random(seed);
  std::vector<std::pair<double, Index>> taken;
  std::vector<Index> before;
  for (std::int64_t round = 0; round < rounds; ++round) {
    if (stop != nullptr && *stop) return;
    const std::size_t most = std::min<std::size_t>(2 + random() % kMostTaken, by_start.size());
    const std::size_t from = random() % (by_start.size() - most + 1);
    taken.clear();
    Cost change = 0;
    for (std::size_t k = from; k < from + most; ++k) {
      const Index i = by_start[k];
      const double shaken = static_cast<double>(1 + random() % 1024);
      taken.emplace_back(shaken * stake(r, i) / std::max(area(r, i), 1.0), i);
      change -= r.cost(i, bank[i]);
      room.remove(i, bank[i]);
    }
    std::stable_sort(taken.begin(), taken.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    before.clear();
    bool placed = true;
    for (const auto& [key, i] : taken) {
      before.push_back(bank[i]);
      const Index best = cheapest_with_room(r, room, i);
      placed = best >= 0;
      if (!placed) break;
      bank[i] = best;
      change += r.cost(i, best);
      room.put(i, best);
    }
    if (placed && change <= 0) {
      if (change < 0) offer(r, bank, incumbent);
      continue;
    }
    for (std::size_t k = 0; k < before.size(); ++k) {
      const Index i = taken[k].second;
      if (placed || k + 1 < before.size()) room.remove(i, bank[i]);
      bank[i] = before[k];
    }
    for (const auto& [key, i] : taken) room.put(i, bank[i]);
  }
}

}  // namespace lowtide
