// Which buffers may share bytes while both are alive.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "problem/problem.hpp"

namespace lowtide {

class Sharing {
 public:
  explicit Sharing(const Problem& problem);

  // Whether one is placed inside the other, directly or through others.
  bool nested(Index a, Index b) const { return !nested_.empty() && nested_.contains(key(a, b)); }
  // Whether they may have exactly the same offset.
  bool may_coincide(Index a, Index b) const { return !twins_.empty() && twins_.contains(key(a, b)); }

  bool none() const { return outer_of_.empty() && twins_of_.empty(); }

  // Of buffers that are alive together, some of which no two can share a byte in any packing: those inside no
  // other of them, and an independent set of those that may coincide. It is grown from what has fewest twins
  // left, which is best where twins form trees, as an output and the inputs that it may replace do.
  std::vector<Index> disjoint(const std::vector<Index>& alive) const;

 private:
  static std::uint64_t key(Index a, Index b) {
    if (a > b) std::swap(a, b);
    return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b);
  }

  void keep_independent(std::vector<Index>& alive) const;

  std::vector<Index> outer_of_;               // or -1; empty without placements
  std::vector<std::vector<Index>> twins_of_;  // what each may coincide with; empty if nothing may
  std::unordered_set<std::uint64_t> nested_;
  std::unordered_set<std::uint64_t> twins_;
};

}  // namespace lowtide
