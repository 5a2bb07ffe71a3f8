// An answer: an offset for every buffer.
#pragma once

#include <vector>

#include "problem/problem.hpp"

namespace lowtide {

struct Packing {
  std::vector<Bytes> offset;
  Bytes arena = 0;  // where the highest buffer ends; at least the reserved prefix
};

// The arena that offsets need. Throws std::overflow_error past 2^63 - 1.
Bytes arena_of(const Problem& problem, const std::vector<Bytes>& offset);

}  // namespace lowtide
