// A dynamic programme over time: the states at a moment are the banks of what is still to be remembered then.
//
// An item is decided at the first segment that binds a bank that it may go to, and forgotten after the last.
// States with equal memories are one, the cheaper. What a state has cost is measured against the relaxation
// (`Prices`): each item's cost above its least, and the price of room left unused. The sum of these is by how
// much the finished choice is above the bound, so it only grows, and a state beyond what the best choice
// known leaves open is dropped. With a limit on states the least of the excess dropped still proves a bound.
#pragma once

#include <cstdint>
#include <vector>

#include "banks/agenda.hpp"
#include "banks/multipliers.hpp"
#include "banks/reduction.hpp"

namespace lowtide {

struct SweepLimits {
  std::int64_t width = 0;   // states kept at a time
  std::int64_t states = 0;  // made in all, before the pass is given up
  Cost budget = 0;          // of excess over the part
  const std::atomic<bool>* stop = nullptr;
};

struct Pick {
  Index item;
  Index bank;
};

struct Swept {
  bool finished = false;  // else only `states` tells anything
  bool found = false;     // a choice within the budget
  std::vector<Pick> picks;
  Cost excess = 0;  // of that choice
  Cost least = 0;   // no choice has less excess, unless it is beyond the budget
  std::int64_t states = 0;
};

// One pass over a part of the agenda.
Swept sweep(const Reduction& reduction, const Prices& prices, const Agenda& agenda, const Part& part,
            const SweepLimits& limits);

// Excess of a given choice over a part.
Cost excess_of(const Reduction& reduction, const Prices& prices, const Agenda& agenda, const Part& part,
               const std::vector<Index>& bank);

}  // namespace lowtide
