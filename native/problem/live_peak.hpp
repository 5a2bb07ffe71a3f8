// The maximum over time of live bytes: what no packing without permissions can beat.
#pragma once

#include <vector>

#include "problem/problem.hpp"

namespace lowtide {

// Live bytes as a step function: `bytes[k]` from `times[k]` until `times[k + 1]`; the last step is 0.
struct LiveCurve {
  std::vector<Time> times;
  std::vector<Bytes> bytes;
};

// O(m log m) for m intervals. Throws std::overflow_error if more than 2^63 - 1 bytes are live at once.
LiveCurve live_curve(const Problem& problem);

// The curve's maximum above the reserved prefix. Sizes count as they are: padding for alignment is the
// caller's to add. With pairs that may coincide, or placements, it is no bound.
Bytes live_peak(const Problem& problem);

}  // namespace lowtide
