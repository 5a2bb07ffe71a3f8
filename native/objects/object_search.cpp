#include "objects/object_search.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace lowtide {
namespace {

using Word = std::uint64_t;
using Bits = std::vector<Word>;

class Search {
 public:
  Search(const Problem& problem, std::int64_t max_nodes, const std::atomic<bool>& stop,
         ObjectAssignment& best)
      : problem_(problem), max_nodes_(max_nodes), stop_(stop), best_(best) {
    for (Index i = 0; i < problem.count(); ++i) {
      if (problem.size[i] > 0) order_.push_back(i);
    }
    // Among equals by start: for those alone, first come first served is best.
    std::stable_sort(order_.begin(), order_.end(), [&](Index a, Index b) {
      if (problem.size[a] != problem.size[b]) return problem.size[a] > problem.size[b];
      return problem.intervals[problem.first[a]].start < problem.intervals[problem.first[b]].start;
    });
    find_conflicts();
    find_clique_sizes();
    object_of_.assign(order_.size(), -1);
  }

  void run() {
    place(0, 0);
    best_.nodes = nodes_;
    if (given_up_) return;
    best_.optimal = true;
    best_.lower_bound = best_.total;
  }

 private:
  struct Object {
    Bits members;
    Bytes size;
  };

  bool overlap(Index a, Index b) const {
    for (Index x = problem_.first[a]; x < problem_.first[a + 1]; ++x) {
      for (Index y = problem_.first[b]; y < problem_.first[b + 1]; ++y) {
        if (problem_.intervals[x].start < problem_.intervals[y].stop &&
            problem_.intervals[y].start < problem_.intervals[x].stop) {
          return true;
        }
      }
    }
    return false;
  }

  void find_conflicts() {
    const std::size_t n = order_.size();
    std::vector<Index> place(problem_.count(), -1);
    for (std::size_t k = 0; k < n; ++k) place[order_[k]] = static_cast<Index>(k);
    conflicts_.assign(n, Bits((n + 63) / 64));
    const auto set = [&](std::size_t a, std::size_t b, bool value) {
      const Word bit = Word{1} << (b % 64);
      conflicts_[a][b / 64] = value ? conflicts_[a][b / 64] | bit : conflicts_[a][b / 64] & ~bit;
    };
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) set(a, b, a != b && overlap(order_[a], order_[b]));
    }
    for (const auto& [a, b] : problem_.coincide) {
      if (place[a] < 0 || place[b] < 0) continue;
      set(place[a], place[b], false);
      set(place[b], place[a], false);
    }
  }

  // How many of the first k + 1 buffers are alive at once, at most. With permissions that says nothing.
  void find_clique_sizes() {
    clique_.assign(order_.size(), 1);
    if (!problem_.coincide.empty()) return;
    std::vector<Time> instants;
    for (const Interval& interval : problem_.intervals) instants.push_back(interval.start);
    std::sort(instants.begin(), instants.end());
    instants.erase(std::unique(instants.begin(), instants.end()), instants.end());
    std::vector<Index> alive(instants.size());
    Index most = 0;
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const Index i = order_[k];
      for (Index s = problem_.first[i]; s < problem_.first[i + 1]; ++s) {
        auto at = std::lower_bound(instants.begin(), instants.end(), problem_.intervals[s].start);
        for (; at != instants.end() && *at < problem_.intervals[s].stop; ++at) {
          most = std::max(most, ++alive[at - instants.begin()]);
        }
      }
      clique_[k] = most;
    }
  }

  // What must still be paid from the k-th buffer on.
  Bytes outstanding(std::size_t k) const {
    Bytes sum = 0;
    const auto open = static_cast<Bytes>(objects_.size());
    for (; k < order_.size(); ++k) {
      const Bytes next = k + 1 < order_.size() ? problem_.size[order_[k + 1]] : 0;
      const Bytes missing = clique_[k] - open;
      if (missing > 0) sum += missing * (problem_.size[order_[k]] - next);
    }
    return sum;
  }

  bool fits(const Object& object, std::size_t k) const {
    for (std::size_t w = 0; w < object.members.size(); ++w) {
      if (object.members[w] & conflicts_[k][w]) return false;
    }
    return true;
  }

  void place(std::size_t k, Bytes cost) {
    if (given_up_ || best_.total == best_.lower_bound) return;
    if (nodes_++ >= max_nodes_ || stop_.load(std::memory_order_relaxed)) {
      given_up_ = true;
      return;
    }
    // No overflow: what is paid and what must be paid are together no more than the greedy total.
    if (cost >= best_.total || outstanding(k) >= best_.total - cost) return;
    if (k == order_.size()) return record(cost);

    const Word bit = Word{1} << (k % 64);
    for (std::size_t o = objects_.size(); o-- > 0;) {  // the tightest first
      if (!fits(objects_[o], k)) continue;
      objects_[o].members[k / 64] |= bit;
      object_of_[k] = static_cast<Index>(o);
      place(k + 1, cost);
      objects_[o].members[k / 64] &= ~bit;
    }
    objects_.push_back({Bits((order_.size() + 63) / 64), problem_.size[order_[k]]});
    objects_.back().members[k / 64] |= bit;
    object_of_[k] = static_cast<Index>(objects_.size()) - 1;
    place(k + 1, cost + problem_.size[order_[k]]);
    objects_.pop_back();
  }

  void record(Bytes cost) {
    best_.total = cost;
    best_.size.clear();
    for (const Object& object : objects_) best_.size.push_back(object.size);
    for (std::size_t k = 0; k < order_.size(); ++k) best_.object[order_[k]] = object_of_[k];
  }

  const Problem& problem_;
  const std::int64_t max_nodes_;
  const std::atomic<bool>& stop_;
  ObjectAssignment& best_;
  std::vector<Index> order_;
  std::vector<Bits> conflicts_;  // by place in the order
  std::vector<Index> clique_;
  std::vector<Object> objects_;  // opened so far; sizes never grow
  std::vector<Index> object_of_;
  std::int64_t nodes_ = 0;
  bool given_up_ = false;
};

}  // namespace

void search_objects(const Problem& problem, std::int64_t max_nodes, const std::atomic<bool>& stop,
                    ObjectAssignment& best) {
  Search(problem, max_nodes, stop, best).run();
}

}  // namespace lowtide
