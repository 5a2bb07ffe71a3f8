// Static orders in which to place buffers one after the other.
#pragma once

#include <string_view>
#include <vector>

#include "problem/problem.hpp"
#include "problem/ranks.hpp"

namespace lowtide {

// The names that order_by knows.
std::vector<std::string_view> order_names();

// A permutation of the buffers, by a named key; ties go by size, then by how many starts the
// buffer outlives, then by start (earlier first), then by index. Throws std::invalid_argument for a name that
// is not known.
std::vector<Index> order_by(const Problem& problem, const Ranks& ranks, std::string_view name);
std::vector<Index> order_by(const Problem& problem, std::string_view name);

// Throws std::invalid_argument unless `order` holds each of 0 .. n - 1 once.
void require_permutation(const std::vector<Index>& order, Index n);

}  // namespace lowtide
