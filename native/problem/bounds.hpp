// Lower bounds that need no search.
#pragma once

#include <vector>

#include "problem/problem.hpp"
#include "problem/sharing.hpp"

namespace lowtide {

// The most bytes that are alive at once among `buffers`, counting only such as cannot share a byte in any
// packing. Throws std::overflow_error past 2^63 - 1.
Bytes peak_without_sharing(const Problem& problem, const Sharing& sharing, const std::vector<Index>& buffers);

// The same of all buffers, above the reserved prefix.
Bytes disjoint_peak(const Problem& problem);

}  // namespace lowtide
