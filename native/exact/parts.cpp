#include "exact/parts.hpp"

#include <algorithm>

#include "problem/bounds.hpp"
#include "problem/checked.hpp"

namespace lowtide {
namespace {

constexpr std::int64_t kInstanceWork = 60'000'000;  // steps, and about 4 bytes each
constexpr Index kLargest = 6000;                    // units; the searches recurse as deep as that
constexpr std::int64_t kMostPairs = 2'000'000;

bool alive_together(const Problem& p, Index a, Index b) {
  Index x = p.first[a], y = p.first[b];
  while (x < p.first[a + 1] && y < p.first[b + 1]) {
    const Interval &u = p.intervals[x], &v = p.intervals[y];
    if (u.start < v.stop && v.start < u.stop) return true;
    u.stop < v.stop ? ++x : ++y;
  }
  return false;
}

// Whether a is alive only when b is.
bool alive_within(const Problem& p, Index a, Index b) {
  Index y = p.first[b];
  for (Index x = p.first[a]; x < p.first[a + 1]; ++x) {
    while (y < p.first[b + 1] && p.intervals[y].stop < p.intervals[x].stop) ++y;
    if (y == p.first[b + 1] || p.intervals[y].start > p.intervals[x].start) return false;
  }
  return true;
}

}  // namespace

Parts::Parts(const Problem& problem, const RuleSet& rules)
    : problem_(problem), units_(problem), sharing_(problem), shares_(problem.count()) {
  find_sharers();
  list_ = group();
  for (Part& part : list_) prepare(part, rules);
}

void Parts::find_sharers() {
  for (const auto& [a, b] : problem_.coincide) {
    if (alive_together(problem_, a, b)) shares_[a] = shares_[b] = 1;
  }
}

// A free buffer; or a group that behaves like its outermost buffer, as all others live inside it in time too.
bool Parts::is_plain(const Unit& unit) const {
  if (unit.pinned != kNone || unit.phase != 0) return false;
  const Index root = outermost(unit);
  for (const Member& member : units_.members(unit)) {
    if (shares_[member.buffer] || (member.buffer == root && member.distance != 0)) return false;
    if (member.buffer == root || problem_.size[member.buffer] == 0) continue;
    if (!sharing_.nested(member.buffer, root) || !alive_within(problem_, member.buffer, root)) return false;
    for (const Member& other : units_.members(unit)) {
      // Two inside the root must not get in each other's way.
      const Bytes low = std::max(member.distance, other.distance);
      const Bytes high = std::min(member.distance + problem_.size[member.buffer],
                                  other.distance + problem_.size[other.buffer]);
      if (other.buffer != member.buffer && low < high && !sharing_.nested(member.buffer, other.buffer) &&
          alive_together(problem_, member.buffer, other.buffer)) {
        return false;
      }
    }
  }
  return true;
}

Index Parts::outermost(const Unit& unit) const {
  Index root = units_.members(unit).front().buffer;
  for (const Member& member : units_.members(unit)) {
    if (problem_.size[member.buffer] > problem_.size[root]) root = member.buffer;
  }
  return root;
}

std::vector<Part> Parts::group() const {
  struct Hull {
    Time start, stop;
    Index unit;
  };
  std::vector<Hull> hulls;
  for (Index u = 0; u < units_.count(); ++u) {
    bool any = false;
    Hull hull{0, 0, u};
    for (const Member& member : units_.members(units_[u])) {
      if (problem_.size[member.buffer] == 0) continue;
      const Time start = problem_.intervals[problem_.first[member.buffer]].start;
      const Time stop = problem_.intervals[problem_.first[member.buffer + 1] - 1].stop;
      hull.start = any ? std::min(hull.start, start) : start;
      hull.stop = any ? std::max(hull.stop, stop) : stop;
      any = true;
    }
    if (any) hulls.push_back(hull);
  }
  std::sort(hulls.begin(), hulls.end(), [](const Hull& a, const Hull& b) {
    return a.start != b.start ? a.start < b.start : a.unit < b.unit;
  });
  std::vector<Part> parts;
  Time reach = 0;
  for (const Hull& hull : hulls) {
    if (parts.empty() || hull.start >= reach) {
      parts.emplace_back();
      reach = hull.stop;
    }
    reach = std::max(reach, hull.stop);
    parts.back().units.push_back(hull.unit);
  }
  return parts;
}

void Parts::prepare(Part& part, const RuleSet& rules) {
  std::sort(part.units.begin(), part.units.end());
  bool plain = true;
  for (const Index u : part.units) plain = plain && is_plain(units_[u]);
  part.roof = roof(part);
  part.bound = live_bound(part);
  const auto n = static_cast<std::int64_t>(part.units.size());
  if (plain && n <= kLargest) {
    std::vector<Index> roots;
    std::vector<Bytes> alignment;
    for (const Index u : part.units) {
      roots.push_back(outermost(units_[u]));
      alignment.push_back(units_[u].step);
    }
    part.instance = make_instance(problem_, roots, alignment, rules, kInstanceWork);
  }
  if (part.instance) part.bound = std::max(part.bound, part.instance->peak());
  part.searchable = part.instance || (!plain && n * n <= kMostPairs);
}

// Pins stay where they are; above the highest, everything else fits one over the other, each at its next
// legal base.
Bytes Parts::roof(const Part& part) const {
  Bytes floor = problem_.reserved, stack = 0;
  for (const Index u : part.units) {
    const Unit& unit = units_[u];
    Bytes height = 0;
    for (const Member& member : units_.members(unit)) {
      height = std::max(height, checked_add(member.distance, problem_.size[member.buffer]));
    }
    if (unit.pinned != kNone) {
      floor = std::max(floor, checked_add(unit.pinned, height));
    } else {
      stack = checked_add(stack, checked_add(height, unit.step - 1));
    }
  }
  return checked_add(floor, stack);
}

Bytes Parts::live_bound(const Part& part) const {
  std::vector<Index> buffers;
  Bytes bound = problem_.reserved;
  for (const Index u : part.units) {
    for (const Member& member : units_.members(units_[u])) {
      const Index i = member.buffer;
      if (problem_.size[i] == 0) continue;
      if (units_[u].pinned != kNone) {
        bound = std::max(bound, checked_add(units_[u].pinned + member.distance, problem_.size[i]));
      }
      buffers.push_back(i);
    }
  }
  return std::max(bound, checked_add(problem_.reserved, peak_without_sharing(problem_, sharing_, buffers)));
}

Bytes Parts::bound() const {
  Bytes bound = problem_.reserved;
  for (const Part& part : list_) bound = std::max(bound, part.bound);
  return bound;
}

std::vector<Bytes> Parts::empty_offsets() const {
  std::vector<Bytes> offset(problem_.count());
  for (Index u = 0; u < units_.count(); ++u) {
    put(u, units_[u].pinned == kNone ? units_[u].phase : units_[u].pinned, offset);
  }
  return offset;
}

void Parts::put(Index unit, Bytes base, std::vector<Bytes>& offset) const {
  for (const Member& member : units_.members(units_[unit])) {
    offset[member.buffer] = checked_add(base, member.distance);
  }
}

Bytes Parts::arena_of(const Part& part, const std::vector<Bytes>& offset) const {
  Bytes arena = problem_.reserved;
  for (const Index u : part.units) {
    for (const Member& member : units_.members(units_[u])) {
      const Bytes size = problem_.size[member.buffer];
      if (size > 0) arena = std::max(arena, checked_add(offset[member.buffer], size));
    }
  }
  return arena;
}

}  // namespace lowtide
