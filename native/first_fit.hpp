// Placing buffers one after the other, each where it fits best among those already there.
//
// First fit takes the lowest legal offset, best fit the tightest gap. In decreasing order of size, area or
// duration they are the classical heuristics of Sekiyama et al. (2018) and of Pisarchyk and Lee (2020).
#pragma once

#include <vector>

#include "packing.hpp"
#include "problem.hpp"

namespace lowtide {

enum class Fit { kFirst, kBest };

// Packs in the given order, a permutation of the buffers; a rigid group goes where its first member is in the
// order, pinned buffers go first of all. The capacity is not looked at: compare it with the arena.
// Throws std::invalid_argument if `order` is no permutation, std::overflow_error past 2^63 - 1 bytes.
Packing pack_in_order(const Problem& problem, const std::vector<Index>& order, Fit fit);

}  // namespace lowtide
