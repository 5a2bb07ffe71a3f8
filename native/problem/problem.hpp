// One arena's packing problem, as arrays of integers.
//
// The kernel knows nothing of graphs, names or files: a buffer is an index, a size and a set of
// half-open lifetimes. Python splits a problem by arena and hands each arena over as one of these.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lowtide {

using Bytes = std::int64_t;
using Time = std::int64_t;
using Index = std::int32_t;

// No fixed offset, no capacity, no offset yet.
inline constexpr Bytes kNone = -1;

// Half-open: alive at `start`, no longer alive at `stop`.
struct Interval {
  Time start;
  Time stop;
};

// `inner` lies `distance` bytes above `outer`'s offset, inside its bytes, and may overlap it in time.
struct Placement {
  Index inner;
  Index outer;
  Bytes distance;
};

struct Problem {
  std::vector<Bytes> size;       // bytes, >= 0; a zero-byte buffer conflicts with nothing
  std::vector<Bytes> alignment;  // bytes, >= 1
  std::vector<Bytes> pin;        // offset that the buffer must have, or kNone

  // Lifetimes in compressed rows: buffer i is alive during intervals[first[i] .. first[i + 1]),
  // which are sorted, disjoint and not empty.
  std::vector<Index> first;
  std::vector<Interval> intervals;

  Bytes reserved = 0;      // bytes at the bottom that no buffer may use
  Bytes capacity = kNone;  // all buffers end at or below this, if given

  // Pairs of equal size that may overlap in time if they have exactly the same offset.
  std::vector<std::pair<Index, Index>> coincide;
  std::vector<Placement> placements;

  Index count() const { return static_cast<Index>(size.size()); }
};

}  // namespace lowtide
