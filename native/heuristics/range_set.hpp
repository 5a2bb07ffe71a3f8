// A set of bytes as ranges, quick to insert into and quick to walk through.
#pragma once

#include <array>
#include <vector>

#include "problem/problem.hpp"

namespace lowtide {

struct Range {
  Bytes low;
  Bytes high;  // one past the last byte
};

// Disjoint ranges, ascending; neighbours that touch are merged.
using Ranges = std::vector<Range>;

// The union of two layers: what came lately, and the rest. Inserting into a long sorted list would move
// half of it each time; so new ranges go to the short layer, and that is merged into the long one in a
// single pass whenever it has grown past about the root of its length.
class RangeSet {
 public:
  void insert(Range range);
  void insert_all(Ranges& batch);  // in any order, overlapping or not; sorts it on the way
  void clear();

  const std::array<Ranges, 2>& layers() const { return layers_; }

 private:
  Ranges& settled() { return layers_[0]; }
  Ranges& recent() { return layers_[1]; }
  void settle_if_long();

  std::array<Ranges, 2> layers_;
};

}  // namespace lowtide
