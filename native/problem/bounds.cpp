#include "problem/bounds.hpp"

#include <algorithm>
#include <numeric>

#include "problem/checked.hpp"

namespace lowtide {
namespace {

struct Life {
  Interval when;
  Index buffer;
};

Bytes sum_of(const Problem& problem, const std::vector<Index>& buffers) {
  Bytes sum = 0;
  for (const Index i : buffers) sum = checked_add(sum, problem.size[i]);
  return sum;
}

// With lives in order of start; in O(m log m), because without sharing a running sum is enough.
Bytes peak_of_sums(const Problem& problem, const std::vector<Life>& lives) {
  std::vector<std::pair<Time, Bytes>> stops;
  for (const Life& life : lives) stops.emplace_back(life.when.stop, problem.size[life.buffer]);
  std::sort(stops.begin(), stops.end());
  Bytes sum = 0, peak = 0;
  auto stop = stops.begin();
  for (const Life& life : lives) {
    for (; stop->first <= life.when.start; ++stop) sum -= stop->second;
    sum = checked_add(sum, problem.size[life.buffer]);
    peak = std::max(peak, sum);
  }
  return peak;
}

}  // namespace

Bytes peak_without_sharing(const Problem& problem, const Sharing& sharing,
                           const std::vector<Index>& buffers) {
  std::vector<Life> lives;
  for (const Index i : buffers) {
    for (Index t = problem.first[i]; t < problem.first[i + 1]; ++t)
      lives.push_back({problem.intervals[t], i});
  }
  std::sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) {
    return a.when.start != b.when.start ? a.when.start < b.when.start : a.buffer < b.buffer;
  });
  if (sharing.none()) return peak_of_sums(problem, lives);

  // The sum may also rise where a life ends: what lay inside of it then needs bytes of its own.
  std::vector<Time> times;
  for (const Life& life : lives) {
    times.push_back(life.when.start);
    times.push_back(life.when.stop);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  Bytes peak = 0;
  std::vector<Life> live;
  std::vector<Index> alive;
  auto next = lives.begin();
  for (const Time time : times) {
    for (; next != lives.end() && next->when.start == time; ++next) live.push_back(*next);
    std::erase_if(live, [&](const Life& life) { return life.when.stop <= time; });
    alive.clear();
    for (const Life& life : live) alive.push_back(life.buffer);
    peak = std::max(peak, sum_of(problem, sharing.disjoint(alive)));
  }
  return peak;
}

Bytes disjoint_peak(const Problem& problem) {
  std::vector<Index> buffers(problem.count());
  std::iota(buffers.begin(), buffers.end(), 0);
  return checked_add(problem.reserved, peak_without_sharing(problem, Sharing(problem), buffers));
}

}  // namespace lowtide
