#include "check/check.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <unordered_set>

namespace lowtide {
namespace {

using Wide = __int128;

std::uint64_t pair_key(Index a, Index b) {
  return static_cast<std::uint64_t>(std::min(a, b)) << 32 | static_cast<std::uint32_t>(std::max(a, b));
}

// Buffers in order of offset; the live ones can be asked which of them meet a byte range. A segment tree
// over that order holds the highest end of the live buffers below each node.
class LiveBytes {
 public:
  LiveBytes(const Problem& problem, const std::vector<Bytes>& offset) : offset_(offset), size_(problem.size) {
    const std::size_t n = offset.size();
    by_offset_.resize(n);
    std::iota(by_offset_.begin(), by_offset_.end(), 0);
    std::stable_sort(by_offset_.begin(), by_offset_.end(),
                     [&](Index a, Index b) { return offset[a] < offset[b]; });
    place_.resize(n);
    for (std::size_t k = 0; k < n; ++k) place_[by_offset_[k]] = static_cast<Index>(k);
    while (leaves_ < n) leaves_ *= 2;
    highest_end_.assign(2 * leaves_, kDead);
  }

  void set_alive(Index i, bool alive) {
    std::size_t node = leaves_ + place_[i];
    highest_end_[node] = alive ? Wide{offset_[i]} + size_[i] : kDead;
    while (node /= 2) highest_end_[node] = std::max(highest_end_[2 * node], highest_end_[2 * node + 1]);
  }

  // Calls meet(j) for each live j that shares a byte with i, until meet returns false.
  template <class Meet>
  bool for_each_meeting(Index i, Meet&& meet) const {
    return descend(1, 0, leaves_, i, meet);
  }

 private:
  static constexpr Wide kDead = -(Wide{1} << 100);

  template <class Meet>
  bool descend(std::size_t node, std::size_t begin, std::size_t end, Index i, Meet&& meet) const {
    if (highest_end_[node] <= offset_[i]) return true;
    if (begin >= by_offset_.size() || offset_[by_offset_[begin]] >= Wide{offset_[i]} + size_[i]) return true;
    if (end - begin == 1) return meet(by_offset_[begin]);
    const std::size_t middle = (begin + end) / 2;
    return descend(2 * node, begin, middle, i, meet) && descend(2 * node + 1, middle, end, i, meet);
  }

  const std::vector<Bytes>& offset_;
  const std::vector<Bytes>& size_;
  std::vector<Index> by_offset_;
  std::vector<Index> place_;
  std::size_t leaves_ = 1;
  std::vector<Wide> highest_end_;
};

class Checker {
 public:
  Checker(const Problem& problem, const std::vector<Bytes>& offset, std::size_t limit)
      : problem_(problem), offset_(offset), limit_(limit) {}

  CheckResult run() {
    if (check_each() && check_placements()) check_pairs();
    if (!result_.truncated) result_.reuse_pairs = pairs_in_space() - static_cast<std::int64_t>(met_.size());
    return std::move(result_);
  }

 private:
  // Returns whether to go on.
  bool report(Violation::Kind kind, Index i, Index j = -1) {
    if (result_.violations.size() == limit_) {
      result_.truncated = true;
      return false;
    }
    result_.violations.push_back({kind, i, j});
    return true;
  }

  bool check_each() {
    using Kind = Violation::Kind;
    const Problem& p = problem_;
    for (Index i = 0; i < p.count(); ++i) {
      const Bytes at = offset_[i];
      if ((at < 0 || (at < p.reserved && p.size[i] > 0)) && !report(Kind::kReserved, i)) return false;
      const Wide limit = p.capacity == kNone ? std::numeric_limits<Bytes>::max() : p.capacity;
      if (Wide{at} + p.size[i] > limit && !report(Kind::kCapacity, i)) return false;
      if (at % p.alignment[i] != 0 && !report(Kind::kAlignment, i)) return false;
      if (p.pin[i] != kNone && at != p.pin[i] && !report(Kind::kPin, i)) return false;
    }
    return true;
  }

  bool check_placements() {
    for (const Placement& place : problem_.placements) {
      const Wide distance = Wide{offset_[place.inner]} - offset_[place.outer];
      const bool inside = distance + problem_.size[place.inner] <= problem_.size[place.outer];
      if (distance == place.distance && distance >= 0 && inside) continue;
      if (!report(Violation::Kind::kPlacement, place.inner, place.outer)) return false;
    }
    return true;
  }

  // Sweeps over time with the live buffers in order of offset.
  void check_pairs() {
    collect_permissions();
    struct Event {
      Time time;
      bool birth;  // deaths first: lifetimes are half-open
      Index buffer;
    };
    std::vector<Event> events;
    for (Index i = 0; i < problem_.count(); ++i) {
      if (problem_.size[i] == 0) continue;
      for (Index k = problem_.first[i]; k < problem_.first[i + 1]; ++k) {
        events.push_back({problem_.intervals[k].start, true, i});
        events.push_back({problem_.intervals[k].stop, false, i});
      }
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      if (a.time != b.time) return a.time < b.time;
      if (a.birth != b.birth) return a.birth < b.birth;
      return a.buffer < b.buffer;
    });
    LiveBytes live(problem_, offset_);
    for (const Event& event : events) {
      if (event.birth) {
        const bool go_on =
            live.for_each_meeting(event.buffer, [&](Index j) { return meet(event.buffer, j); });
        if (!go_on) return;
      }
      live.set_alive(event.buffer, event.birth);
    }
  }

  bool meet(Index i, Index j) {
    if (i == j) return true;
    const std::uint64_t key = pair_key(i, j);
    if (!met_.insert(key).second || nested_.contains(key)) return true;
    if (offset_[i] == offset_[j] && may_coincide_.contains(key)) return true;
    return report(Violation::Kind::kOverlap, std::min(i, j), std::max(i, j));
  }

  // A buffer may lie over whatever it is placed inside of, directly or through others.
  void collect_permissions() {
    for (const auto& [a, b] : problem_.coincide) may_coincide_.insert(pair_key(a, b));
    std::vector<std::vector<Index>> outers;
    if (!problem_.placements.empty()) outers.resize(problem_.count());
    for (const Placement& place : problem_.placements) outers[place.inner].push_back(place.outer);
    std::vector<Index> todo;
    for (const Placement& place : problem_.placements) {
      todo.assign(1, place.outer);
      while (!todo.empty()) {
        const Index outer = todo.back();
        todo.pop_back();
        if (!nested_.insert(pair_key(place.inner, outer)).second) continue;
        todo.insert(todo.end(), outers[outer].begin(), outers[outer].end());
      }
    }
  }

  // All pairs, less those of which one ends by the other's offset.
  std::int64_t pairs_in_space() const {
    std::vector<Wide> lows, highs;
    for (Index i = 0; i < problem_.count(); ++i) {
      if (problem_.size[i] == 0) continue;
      lows.push_back(offset_[i]);
      highs.push_back(Wide{offset_[i]} + problem_.size[i]);
    }
    std::sort(lows.begin(), lows.end());
    std::sort(highs.begin(), highs.end());
    const auto n = static_cast<std::int64_t>(lows.size());
    std::int64_t pairs = n * (n - 1) / 2;
    std::size_t ended = 0;
    for (const Wide low : lows) {
      while (ended < highs.size() && highs[ended] <= low) ++ended;
      pairs -= static_cast<std::int64_t>(ended);
    }
    return pairs;
  }

  const Problem& problem_;
  const std::vector<Bytes>& offset_;
  const std::size_t limit_;
  CheckResult result_;
  std::unordered_set<std::uint64_t> met_;  // pairs that share a byte and an instant
  std::unordered_set<std::uint64_t> may_coincide_;
  std::unordered_set<std::uint64_t> nested_;
};

}  // namespace

CheckResult check(const Problem& problem, const std::vector<Bytes>& offset, std::size_t limit) {
  if (static_cast<Index>(offset.size()) != problem.count()) {
    throw std::invalid_argument("a plan needs one offset for each buffer");
  }
  return Checker(problem, offset, limit).run();
}

}  // namespace lowtide
