// Which bank of memory each item goes to, so that access costs the least: a temporal knapsack.
//
// An item has a weight that changes over time and a cost in each bank; at no time may a bank hold more than
// its capacity. Where in a bank an item lies is not asked, so the best choice is a lower bound on what any
// layout costs. A cut forbids that all of its items are in its bank: a set for which no layout was found.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "problem/problem.hpp"

namespace lowtide {

using Cost = std::int64_t;

// Of an item in a bank that it may not go to.
inline constexpr Cost kForbidden = -1;

// A choice of a bank is kept in four bits.
inline constexpr Index kMostBanks = 15;

// Costs of all items together, whichever banks they go to, are below this.
inline constexpr Cost kMostCost = Cost{1} << 56;

// Half-open, as a lifetime is: `weight` bytes are held from `start` until `stop`.
struct Piece {
  Time start;
  Time stop;
  Bytes weight;
};

struct Cut {
  Index bank;
  std::vector<Index> items;
};

struct BankProblem {
  Index banks = 0;
  std::vector<Bytes> capacity;  // of each bank
  std::vector<Cost> cost;       // cost[i * banks + b] of item i in bank b, or kForbidden

  // Item i holds pieces[first[i] .. first[i + 1]), which are sorted, disjoint and not empty.
  std::vector<Index> first;
  std::vector<Piece> pieces;
  std::vector<Cut> cuts;

  Index count() const { return static_cast<Index>(first.size()) - 1; }
};

struct BankOptions {
  std::int64_t states = 16'000'000;  // that all passes over time may make together
  std::uint64_t seed = 0;
  const std::atomic<bool>* stop = nullptr;  // raised by the caller: at the deadline, or to interrupt
};

struct BankChoice {
  std::vector<Index> bank;  // of each item; empty if none was found
  Cost cost = 0;            // of the choice
  Cost bound = 0;           // no choice costs less
  bool infeasible = false;  // proved: no choice holds the capacities and cuts
  std::int64_t states = 0;  // made by the passes over time
  Index left = 0;           // items that reductions did not settle
  bool proved() const { return infeasible || (!bank.empty() && cost == bound); }
};

// Deterministic unless stopped from outside.
BankChoice choose_banks(const BankProblem& problem, const BankOptions& options);

}  // namespace lowtide
