#include "problem/live_peak.hpp"

#include <algorithm>
#include <utility>

#include "problem/checked.hpp"

namespace lowtide {

LiveCurve live_curve(const Problem& problem) {
  std::vector<std::pair<Time, Bytes>> changes;
  changes.reserve(2 * problem.intervals.size());
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.size[i] == 0) continue;
    for (Index k = problem.first[i]; k < problem.first[i + 1]; ++k) {
      changes.emplace_back(problem.intervals[k].start, problem.size[i]);
      changes.emplace_back(problem.intervals[k].stop, -problem.size[i]);
    }
  }
  // At one instant deaths come first, so that the running sum never counts both.
  std::sort(changes.begin(), changes.end());

  LiveCurve curve;
  Bytes live = 0;
  for (std::size_t k = 0; k < changes.size(); ++k) {
    live = checked_add(live, changes[k].second);
    const bool last_change_now = k + 1 == changes.size() || changes[k + 1].first != changes[k].first;
    if (!last_change_now || (!curve.bytes.empty() && curve.bytes.back() == live)) continue;
    curve.times.push_back(changes[k].first);
    curve.bytes.push_back(live);
  }
  return curve;
}

Bytes live_peak(const Problem& problem) {
  const LiveCurve curve = live_curve(problem);
  Bytes peak = 0;
  for (const Bytes bytes : curve.bytes) peak = std::max(peak, bytes);
  return checked_add(peak, problem.reserved);
}

}  // namespace lowtide
