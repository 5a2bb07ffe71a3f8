// Exact branch and bound for shared objects.
#pragma once

#include <atomic>
#include <cstdint>

#include "objects/shared_objects.hpp"
#include "problem/problem.hpp"

namespace lowtide {

// Improves on `best` until it is proved optimal (then sets `optimal` and raises `lower_bound` to the total),
// or `max_nodes` have been tried, or `stop` is raised. For some hundred buffers at most.
//
// Buffers are taken in order of decreasing size, so that an object's size is that of its first buffer, and
// only a new object costs anything. What is still to be paid is bounded by the positional maxima: while
// fewer objects are open than buffers of a size or more are alive at once, more must be opened.
void search_objects(const Problem& problem, std::int64_t max_nodes, const std::atomic<bool>& stop,
                    ObjectAssignment& best);

}  // namespace lowtide
