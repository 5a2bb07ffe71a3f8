#include "problem/ranks.hpp"

#include <algorithm>

namespace lowtide {

Ranks::Ranks(const Problem& problem) {
  instants.reserve(problem.intervals.size());
  for (const Interval& interval : problem.intervals) instants.push_back(interval.start);
  std::sort(instants.begin(), instants.end());
  instants.erase(std::unique(instants.begin(), instants.end()), instants.end());
  instants.shrink_to_fit();

  const auto rank = [this](Time t) {
    return static_cast<Index>(std::lower_bound(instants.begin(), instants.end(), t) - instants.begin());
  };
  spans.reserve(problem.intervals.size());
  for (const Interval& interval : problem.intervals) {
    spans.push_back({rank(interval.start), rank(interval.stop)});
  }
}

}  // namespace lowtide
