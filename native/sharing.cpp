#include "sharing.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace lowtide {

Sharing::Sharing(const Problem& problem) {
  if (!problem.placements.empty()) outer_of_.assign(problem.count(), -1);
  for (const Placement& placement : problem.placements) {
    if (outer_of_[placement.inner] >= 0 && outer_of_[placement.inner] != placement.outer) {
      throw std::invalid_argument("a buffer is placed inside two others");
    }
    outer_of_[placement.inner] = placement.outer;
  }
  for (const Placement& placement : problem.placements) {
    Index depth = 0;
    for (Index outer = placement.outer; outer >= 0; outer = outer_of_[outer]) {
      if (++depth > problem.count()) throw std::invalid_argument("a buffer is placed inside itself");
      nested_.insert(key(placement.inner, outer));
    }
  }
  if (problem.coincide.empty()) return;
  group_of_.resize(problem.count());
  std::iota(group_of_.begin(), group_of_.end(), 0);
  const auto find = [&](Index i) {
    while (group_of_[i] != i) i = group_of_[i] = group_of_[group_of_[i]];
    return i;
  };
  for (const auto& [a, b] : problem.coincide) {
    twins_.insert(key(a, b));
    group_of_[find(a)] = find(b);
  }
  for (Index i = 0; i < problem.count(); ++i) group_of_[i] = find(i);
}

std::vector<Index> Sharing::disjoint(const std::vector<Index>& alive) const {
  if (outer_of_.empty() && group_of_.empty()) return alive;
  std::vector<Index> sorted = alive;
  std::sort(sorted.begin(), sorted.end());
  std::vector<Index> kept, groups;
  for (const Index i : sorted) {
    bool inside = false;
    for (Index o = outer_of_.empty() ? -1 : outer_of_[i]; o >= 0 && !inside; o = outer_of_[o]) {
      inside = std::binary_search(sorted.begin(), sorted.end(), o);
    }
    if (inside) continue;
    if (!group_of_.empty()) {
      if (std::find(groups.begin(), groups.end(), group_of_[i]) != groups.end()) continue;
      groups.push_back(group_of_[i]);
    }
    kept.push_back(i);
  }
  return kept;
}

}  // namespace lowtide
