// Prices for bytes held at busy times: a Lagrangian relaxation of the capacities.
//
// Each byte that an item holds in a bank during a segment costs it that pair's price, and in return nothing
// limits the bank: then every item goes where it is cheapest, and the sum, less the price of all room, is a
// lower bound. Good prices are found by subgradient steps in floating point; the bound is then computed from
// prices rounded to whole numbers, in whole numbers, so that it holds exactly.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "banks/reduction.hpp"

namespace lowtide {

struct Prices {
  Cost scale = 1;            // all that follows is in units of 1 / scale of a cost
  std::vector<Cost> price;   // of a byte, by Reduction::at; 0 where the bank does not bind
  std::vector<Cost> priced;  // of an item in a bank, by Reduction::cell: cost and what it holds
  std::vector<Cost> least;   // of each item, over the banks that it may go to
  Cost total = 0;            // the relaxed problem's answer: no choice costs less
  Cost bound = 0;            // the same, rounded up to a whole cost
};

// For by > 0.
Cost ceil_div(Cost value, Cost by);

// `upper`: the cost of a choice, or of anything above the best one.
Prices find_prices(const Reduction& reduction, Cost upper, int rounds, const std::atomic<bool>* stop);

}  // namespace lowtide
