#include "problem/sharing.hpp"

#include <algorithm>
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
  twins_of_.resize(problem.count());
  for (const auto& [a, b] : problem.coincide) {
    if (!twins_.insert(key(a, b)).second) continue;
    twins_of_[a].push_back(b);
    twins_of_[b].push_back(a);
  }
}

std::vector<Index> Sharing::disjoint(const std::vector<Index>& alive) const {
  if (none()) return alive;
  std::vector<Index> kept = alive;
  std::sort(kept.begin(), kept.end());
  if (!outer_of_.empty()) {
    const std::vector<Index> sorted = kept;
    std::erase_if(kept, [&](Index i) {
      for (Index o = outer_of_[i]; o >= 0; o = outer_of_[o]) {
        if (std::binary_search(sorted.begin(), sorted.end(), o)) return true;
      }
      return false;
    });
  }
  if (!twins_of_.empty()) keep_independent(kept);
  return kept;
}

void Sharing::keep_independent(std::vector<Index>& alive) const {
  struct Linked {
    Index buffer;
    std::vector<Index> twins;  // positions in `linked`
    Index degree = 0;
    bool decided = false;
  };
  std::vector<Linked> linked;
  std::vector<Index> position(alive.size(), -1);
  const auto place_of = [&](Index i) {
    const auto at = std::lower_bound(alive.begin(), alive.end(), i);
    return at == alive.end() || *at != i ? Index{-1} : static_cast<Index>(at - alive.begin());
  };
  for (std::size_t k = 0; k < alive.size(); ++k) {
    const auto& twins = twins_of_[alive[k]];
    if (std::any_of(twins.begin(), twins.end(), [&](Index j) { return place_of(j) >= 0; })) {
      position[k] = static_cast<Index>(linked.size());
      linked.push_back({alive[k], {}});
    }
  }
  if (linked.empty()) return;
  for (Linked& one : linked) {
    for (const Index j : twins_of_[one.buffer]) {
      if (const Index at = place_of(j); at >= 0) one.twins.push_back(position[at]);
    }
    one.degree = static_cast<Index>(one.twins.size());
  }
  std::vector<Index> dropped;
  const auto drop = [&](Linked& one) {
    one.decided = true;
    for (const Index other : one.twins) --linked[other].degree;
  };
  for (;;) {
    Linked* next = nullptr;
    for (Linked& one : linked) {
      if (!one.decided && (next == nullptr || one.degree < next->degree)) next = &one;
    }
    if (next == nullptr) break;
    drop(*next);
    for (const Index other : next->twins) {
      if (linked[other].decided) continue;
      drop(linked[other]);
      dropped.push_back(linked[other].buffer);
    }
  }
  std::erase_if(alive,
                [&](Index i) { return std::find(dropped.begin(), dropped.end(), i) != dropped.end(); });
}

}  // namespace lowtide
