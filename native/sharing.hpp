// Which buffers may share bytes while both are alive.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "problem.hpp"

namespace lowtide {

class Sharing {
 public:
  explicit Sharing(const Problem& problem);

  // Whether one is placed inside the other, directly or through others.
  bool nested(Index a, Index b) const { return !nested_.empty() && nested_.contains(key(a, b)); }
  // Whether they may have exactly the same offset.
  bool may_coincide(Index a, Index b) const { return !twins_.empty() && twins_.contains(key(a, b)); }

  bool none() const { return outer_of_.empty() && group_of_.empty(); }

  // Of buffers that are alive together, some of which no two can share a byte in any packing: those inside no
  // other of them, and one only of those that may coincide, directly or through others.
  std::vector<Index> disjoint(const std::vector<Index>& alive) const;

 private:
  static std::uint64_t key(Index a, Index b) {
    if (a > b) std::swap(a, b);
    return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b);
  }

  std::vector<Index> outer_of_;  // or -1; empty without placements
  std::vector<Index> group_of_;  // buffers linked by pairs that may coincide; empty without such
  std::unordered_set<std::uint64_t> nested_;
  std::unordered_set<std::uint64_t> twins_;
};

}  // namespace lowtide
