#include "objects/shared_objects.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>

#include "heuristics/orders.hpp"
#include "objects/object_search.hpp"
#include "problem/checked.hpp"
#include "problem/conflicts.hpp"
#include "problem/ranks.hpp"

namespace lowtide {
namespace {

constexpr Index kExactBuffers = 512;

// The most that is alive at once, while buffers are added: a segment tree with range addition.
class LiveCount {
 public:
  explicit LiveCount(Index instants) {
    while (leaves_ < instants) leaves_ *= 2;
    most_.assign(2 * static_cast<std::size_t>(leaves_), 0);
    added_.assign(2 * static_cast<std::size_t>(leaves_), 0);
  }

  void add(const Span& span) { add(1, 0, leaves_, span); }
  Index most() const { return most_[1]; }

 private:
  void add(Index node, Index begin, Index end, const Span& span) {
    if (span.stop <= begin || end <= span.start) return;
    if (span.start <= begin && end <= span.stop) {
      ++most_[node];
      ++added_[node];
      return;
    }
    const Index middle = (begin + end) / 2;
    add(2 * node, begin, middle, span);
    add(2 * node + 1, middle, end, span);
    most_[node] = added_[node] + std::max(most_[2 * node], most_[2 * node + 1]);
  }

  Index leaves_ = 1;
  std::vector<Index> most_;   // below and at the node, without what was added above it
  std::vector<Index> added_;  // to all of the node
};

void refuse_offsets(const Problem& problem) {
  const bool pinned =
      std::any_of(problem.pin.begin(), problem.pin.end(), [](Bytes pin) { return pin != kNone; });
  if (pinned || problem.reserved > 0 || !problem.placements.empty()) {
    throw std::invalid_argument("shared objects have no offsets: no pins, reserved bytes or placements");
  }
}

class Greedy {
 public:
  explicit Greedy(const Problem& problem) : problem_(problem), ranks_(problem), conflicts_(problem, ranks_) {
    twins_.resize(problem.coincide.empty() ? 0 : problem.count());
    for (const auto& [a, b] : problem.coincide) {
      twins_[a].push_back(b);
      twins_[b].push_back(a);
    }
  }

  ObjectAssignment assign(const std::vector<Index>& order, ObjectChoice choice) const {
    ObjectAssignment result;
    result.object.assign(problem_.count(), -1);
    std::vector<Index> taken_by;  // object -> the last buffer that could not take it
    for (const Index i : order) {
      const Bytes size = problem_.size[i];
      if (size == 0) continue;
      conflicts_.visit(i, [&](Index j) {
        const Index object = result.object[j];
        if (object >= 0 && !may_share(i, j)) taken_by[object] = i;
      });
      Index chosen = -1;
      for (Index o = 0; o < static_cast<Index>(result.size.size()); ++o) {
        if (taken_by[o] == i) continue;
        if (chosen < 0 || suits_better(size, result.size[o], result.size[chosen], choice)) chosen = o;
      }
      if (chosen < 0) {
        chosen = static_cast<Index>(result.size.size());
        result.size.push_back(0);
        taken_by.push_back(-1);
      }
      result.object[i] = chosen;
      result.size[chosen] = std::max(result.size[chosen], size);
    }
    for (const Bytes size : result.size) result.total = checked_add(result.total, size);
    return result;
  }

 private:
  bool may_share(Index i, Index j) const {
    return !twins_.empty() && std::find(twins_[i].begin(), twins_[i].end(), j) != twins_[i].end();
  }

  static bool suits_better(Bytes size, Bytes a, Bytes b, ObjectChoice choice) {
    if (choice == ObjectChoice::kClosest) return std::abs(a - size) < std::abs(b - size);
    if ((a >= size) != (b >= size)) return a >= size;
    return a >= size ? a < b : a > b;
  }

  const Problem& problem_;
  const Ranks ranks_;
  const Conflicts conflicts_;
  std::vector<std::vector<Index>> twins_;
};

// Swaps buffers of the best order at random and keeps what is no worse.
void search_locally(const Problem& problem, const Greedy& greedy, std::vector<Index> order,
                    std::int64_t passes, std::uint64_t seed, const std::atomic<bool>& stop,
                    ObjectAssignment& best) {
  std::mt19937_64 random(seed);
  const auto n = static_cast<std::uint64_t>(problem.count());
  Bytes current = best.total;
  std::vector<Index> next;
  for (std::int64_t pass = 0; pass < passes && !stop && best.total > best.lower_bound; ++pass) {
    next = order;
    for (std::uint64_t swaps = 1 + random() % 4; swaps > 0; --swaps)
      std::swap(next[random() % n], next[random() % n]);
    ObjectAssignment candidate = greedy.assign(next, ObjectChoice::kSmallest);
    if (candidate.total > current) continue;
    current = candidate.total;
    order.swap(next);
    if (current < best.total) {
      candidate.lower_bound = best.lower_bound;
      best = std::move(candidate);
    }
  }
}

}  // namespace

Bytes object_lower_bound(const Problem& problem) {
  const std::vector<Index> order = order_by(problem, "size");
  if (!problem.coincide.empty()) return order.empty() ? 0 : problem.size[order[0]];
  const Ranks ranks(problem);
  LiveCount live(std::max<Index>(1, ranks.count()));
  Bytes bound = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Index i = order[k];
    for (Index s = problem.first[i]; s < problem.first[i + 1]; ++s) live.add(ranks.spans[s]);
    // So many buffers of this size or more are alive at once, so there are so many such objects.
    const Bytes next = k + 1 < order.size() ? problem.size[order[k + 1]] : 0;
    Bytes step;
    if (__builtin_mul_overflow(problem.size[i] - next, static_cast<Bytes>(live.most()), &step))
      throw_overflow();
    bound = checked_add(bound, step);
  }
  return bound;
}

ObjectAssignment assign_objects_in_order(const Problem& problem, const std::vector<Index>& order,
                                         ObjectChoice choice) {
  refuse_offsets(problem);
  require_permutation(order, problem.count());
  ObjectAssignment result = Greedy(problem).assign(order, choice);
  result.lower_bound = object_lower_bound(problem);
  result.optimal = result.total == result.lower_bound;
  return result;
}

ObjectAssignment assign_objects(const Problem& problem, std::int64_t max_nodes, std::uint64_t seed,
                                const std::atomic<bool>& stop) {
  refuse_offsets(problem);
  const Greedy greedy(problem);
  ObjectAssignment best;
  best.total = std::numeric_limits<Bytes>::max();
  best.lower_bound = object_lower_bound(problem);
  std::vector<Index> best_order;
  for (const char* name : {"size", "peak-size", "start", "duration"}) {
    for (const ObjectChoice choice : {ObjectChoice::kClosest, ObjectChoice::kSmallest}) {
      const std::vector<Index> order = order_by(problem, name);
      ObjectAssignment candidate = greedy.assign(order, choice);
      if (!best_order.empty() && candidate.total >= best.total) continue;
      candidate.lower_bound = best.lower_bound;
      best = std::move(candidate);
      best_order = order;
    }
  }
  const std::int64_t passes = max_nodes / std::max<std::int64_t>(1, problem.count());
  if (problem.count() > 0) search_locally(problem, greedy, best_order, passes, seed, stop, best);
  if (best.total > best.lower_bound && problem.count() <= kExactBuffers) {
    search_objects(problem, max_nodes, stop, best);
  }
  best.optimal = best.optimal || best.total == best.lower_bound;
  return best;
}

}  // namespace lowtide
