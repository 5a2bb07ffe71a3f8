// Memory that cannot be subdivided, such as GPU textures: buffers share whole objects or nothing.
//
// Each buffer is given an object; an object is as large as its largest buffer; buffers that are alive at one
// time have different objects. To be minimised is the sum of the objects' sizes.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "problem/problem.hpp"

namespace lowtide {

struct ObjectAssignment {
  std::vector<Index> object;  // of each buffer; -1 for buffers of zero bytes
  std::vector<Bytes> size;    // of each object
  Bytes total = 0;
  Bytes lower_bound = 0;
  bool optimal = false;
  std::int64_t nodes = 0;    // of the exact search
  bool interrupted = false;  // from the keyboard
};

// Which free object a buffer takes; it makes a new one if there is none.
enum class ObjectChoice {
  kClosest,   // the one of the closest size, as ExecuTorch's greedy planner does
  kSmallest,  // the smallest that is large enough, else the largest: the least growth (Pisarchyk and Lee,
              // 2020)
};

// Buffers take objects in the given order, a permutation. O(m log m) and, for each buffer, its neighbours.
ObjectAssignment assign_objects_in_order(const Problem& problem, const std::vector<Index>& order,
                                         ObjectChoice choice);

// The greedy orders (size; breadth, which is the bytes alive at an instant; start), improved by local search
// and, for small problems, by branch and bound, until proved optimal, `max_nodes` or `stop`. Deterministic
// for a seed if not stopped.
//
// Throws std::invalid_argument for pins, reserved bytes and placements: objects have no offsets.
ObjectAssignment assign_objects(const Problem& problem, std::int64_t max_nodes, std::uint64_t seed,
                                const std::atomic<bool>& stop);

// Sorted by size, the k-th largest object is no smaller than the k-th largest buffer alive at any one time:
// the sum over k of these maxima ("positional maxima", Pisarchyk and Lee, 2020).
Bytes object_lower_bound(const Problem& problem);

}  // namespace lowtide
