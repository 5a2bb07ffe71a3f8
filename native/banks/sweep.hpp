// A dynamic programme over time: the states at a moment are the banks of what is still to be remembered then.
//
// An item is decided at the first segment that binds a bank that it may go to, and forgotten after the last.
// States with equal memories are one, the cheaper. What a state has cost is measured against the relaxation
// (`Prices`): the item's cost above its least, and the price of room left unused. The sum of these is by how
// much the finished choice is above the bound, so it only grows, and a state beyond what the best choice
// known leaves open is dropped. With a limit on states the least of the excess dropped still proves a bound.
#pragma once

#include <cstdint>
#include <vector>

#include "banks/multipliers.hpp"
#include "banks/reduction.hpp"

namespace lowtide {

struct SweepLimits {
  std::int64_t width = 0;   // states kept at a time
  std::int64_t states = 0;  // made in all, before the pass is given up
  Cost upper = 0;           // only choices that cost less are wanted
  const std::atomic<bool>* stop = nullptr;
};

struct Swept {
  bool finished = false;    // else only `states` tells anything
  std::vector<Index> bank;  // of each item, settled ones included; empty if nothing was found
  Cost cost = 0;
  Cost bound = 0;  // no choice costs less than this, or than `upper`
  std::int64_t states = 0;
};

Swept sweep(const Reduction& reduction, const Prices& prices, const SweepLimits& limits);

}  // namespace lowtide
