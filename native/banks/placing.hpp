// Choices made item by item, each in the cheapest bank that has room, and how to improve on them.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <vector>

#include "banks/multipliers.hpp"
#include "banks/reduction.hpp"

namespace lowtide {

// Room that is left in each bank at each segment.
class Room {
 public:
  explicit Room(const Reduction& reduction);
  bool fits(Index item, Index bank) const;
  void put(Index item, Index bank) { change(item, bank, -1); }
  void remove(Index item, Index bank) { change(item, bank, 1); }

 private:
  // The least room of a range is the least of its halves plus what was added to all of it.
  struct Node {
    Bytes least = 0;
    Bytes added = 0;
  };
  void build(std::vector<Node>& tree, Index bank, std::size_t node, Index low, Index high);
  void add(std::vector<Node>& tree, std::size_t node, Index low, Index high, const Span& span, Bytes by);
  Bytes least(const std::vector<Node>& tree, std::size_t node, Index low, Index high, const Span& span) const;
  void change(Index item, Index bank, int sign);

  const Reduction& r_;
  std::vector<std::vector<Node>> trees_;
};

// The cheapest choice known, if any.
struct Incumbent {
  std::vector<Index> bank;
  Cost cost = 0;
  bool known() const { return !bank.empty(); }
};

// Whether a choice is none of those that are cut off.
bool keeps_cuts(const BankProblem& problem, const std::vector<Index>& bank);
Cost cost_of(const BankProblem& problem, const std::vector<Index>& bank);

// Several orders, each item in its cheapest bank with room; with prices, also the order that they suggest.
void place_in_orders(const Reduction& reduction, const Prices* prices, Incumbent& incumbent);

// Takes out items of one time after another and puts them back in another order, as long as that is no worse.
void improve(const Reduction& reduction, std::uint64_t seed, std::int64_t rounds,
             const std::atomic<bool>* stop, Incumbent& incumbent);

}  // namespace lowtide
