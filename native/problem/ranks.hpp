// Time, renamed to the ranks of the instants at which something starts.
//
// Two lifetimes overlap exactly when their rank ranges do, because whatever is alive together is
// alive together at the start of one of the two. So the planners never look at the clock itself.
#pragma once

#include <vector>

#include "problem/problem.hpp"

namespace lowtide {

// Half-open, in ranks.
struct Span {
  Index start;
  Index stop;
};

inline bool overlap(const Span& a, const Span& b) { return a.start < b.stop && b.start < a.stop; }

struct Ranks {
  explicit Ranks(const Problem& problem);

  Index count() const { return static_cast<Index>(instants.size()); }

  std::vector<Time> instants;  // the distinct start times, ascending
  std::vector<Span> spans;     // one for each of problem.intervals
};

}  // namespace lowtide
