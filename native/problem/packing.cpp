#include "problem/packing.hpp"

#include <algorithm>

#include "problem/checked.hpp"

namespace lowtide {

Bytes arena_of(const Problem& problem, const std::vector<Bytes>& offset) {
  Bytes arena = problem.reserved;
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.size[i] > 0) arena = std::max(arena, checked_add(offset[i], problem.size[i]));
  }
  return arena;
}

}  // namespace lowtide
