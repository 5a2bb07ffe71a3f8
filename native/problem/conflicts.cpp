#include "problem/conflicts.hpp"

#include <algorithm>

namespace lowtide {

Conflicts::Conflicts(const Problem& problem, const Ranks& ranks) : problem_(problem), ranks_(ranks) {
  const Index instants = ranks.count();
  first_at_.assign(instants + 1, 0);
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.size[i] == 0) continue;
    for (Index k = problem.first[i]; k < problem.first[i + 1]; ++k) entries_.push_back({ranks.spans[k], i});
  }
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.span.start < b.span.start; });
  for (const Entry& entry : entries_) ++first_at_[entry.span.start + 1];
  for (Index r = 0; r < instants; ++r) first_at_[r + 1] += first_at_[r];

  // A checkpoint comes due once as many intervals have started as were alive at the last one: lists and
  // the gaps between them then cost about the same to read, and the lists take linear space in all.
  checkpoint_of_.resize(instants);
  std::vector<Entry> live;
  Index last = 0;
  for (Index r = 0; r < instants; ++r) {
    const Index started = first_at_[r] - last;
    if (r == 0 || (started > 0 && started >= static_cast<Index>(live.size()) / 2 + 16)) {
      for (Index k = last; k < first_at_[r]; ++k) live.push_back(entries_[k]);
      std::erase_if(live, [r](const Entry& entry) { return entry.span.stop <= r; });
      last = first_at_[r];
      checkpoint_at_.push_back(last);
      live_first_.push_back(static_cast<Index>(live_.size()));
      live_.insert(live_.end(), live.begin(), live.end());
    }
    checkpoint_of_[r] = static_cast<Index>(checkpoint_at_.size()) - 1;
  }
  live_first_.push_back(static_cast<Index>(live_.size()));
}

}  // namespace lowtide
