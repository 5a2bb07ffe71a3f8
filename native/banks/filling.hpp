// Which buffers are in one bank, and where: layouts in which everything keeps the bank's size, ever better.
//
// A choice that disregards layout may hold too much for any layout. Here buffers are put in one by one, each
// at an offset where it fits below the capacity, or are left out; a few of one time after another are then
// taken out and put back in another order, as long as that is no worse.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "banks/knapsack.hpp"
#include "problem/problem.hpp"

namespace lowtide {

// Of a buffer that stays where it is, inside or outside.
inline constexpr Cost kStays = -1;

struct FillOptions {
  std::int64_t rounds = 0;
  std::uint64_t seed = 0;
  const std::atomic<bool>* stop = nullptr;  // raised by the caller: at the deadline, or to interrupt
};

struct BankFill {
  std::vector<Bytes> offset;  // of each buffer, or kNone if it is outside
  Cost gain = 0;              // of all that are inside and may leave
  std::int64_t rounds = 0;    // finished
};

// `gain`: what it wins to have a buffer inside, or kStays. `chosen`: 1 for those that a choice of banks has
// inside; they go in first, the largest first. `offset`: a legal layout to begin with, kNone for
// what is outside. The problem has a capacity; buffers that share bytes with others must stay. Deterministic
// unless stopped from outside.
BankFill fill_bank(const Problem& problem, const std::vector<Cost>& gain,
                   const std::vector<std::uint8_t>& chosen, std::vector<Bytes> offset,
                   const FillOptions& options);

}  // namespace lowtide
