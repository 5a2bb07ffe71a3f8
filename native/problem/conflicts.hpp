// Who is alive together with whom, asked one buffer at a time.
//
// Pairs of conflicting buffers are quadratic in number, so they are never listed. Intervals are kept in
// order of start, with the set of live intervals written down at checkpoints: a question reads the
// checkpoint before the interval and everything that starts from there to the interval's end.
#pragma once

#include <vector>

#include "problem/problem.hpp"
#include "problem/ranks.hpp"

namespace lowtide {

class Conflicts {
 public:
  Conflicts(const Problem& problem, const Ranks& ranks);

  // Calls visit(j) for every buffer j of positive size that is alive at some time at which i is, i itself
  // included. A buffer with several intervals may be visited several times.
  template <class Visit>
  void visit(Index i, Visit&& visit) const {
    for (Index k = problem_.first[i]; k < problem_.first[i + 1]; ++k) visit_span(ranks_.spans[k], visit);
  }

  template <class Visit>
  void visit_span(const Span& span, Visit&& visit) const {
    const Index checkpoint = checkpoint_of_[span.start];
    for (Index k = live_first_[checkpoint]; k < live_first_[checkpoint + 1]; ++k) {
      if (live_[k].span.stop > span.start) visit(live_[k].buffer);
    }
    const Index end = first_at_[span.stop];
    for (Index k = checkpoint_at_[checkpoint]; k < end; ++k) {
      if (entries_[k].span.stop > span.start) visit(entries_[k].buffer);
    }
  }

 private:
  struct Entry {
    Span span;
    Index buffer;
  };

  const Problem& problem_;
  const Ranks& ranks_;
  std::vector<Entry> entries_;        // by start
  std::vector<Index> first_at_;       // rank -> first entry that starts at it or later
  std::vector<Index> checkpoint_of_;  // rank -> the last checkpoint at or before it
  std::vector<Index> checkpoint_at_;  // checkpoint -> first entry that starts at it or later
  std::vector<Index> live_first_;     // checkpoint -> its part of live_
  std::vector<Entry> live_;           // alive at the checkpoint, started before it
};

}  // namespace lowtide
