#include "first_fit.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "checked.hpp"
#include "conflicts.hpp"
#include "occupancy.hpp"
#include "ranks.hpp"
#include "units.hpp"

namespace lowtide {
namespace {

void require_permutation(const std::vector<Index>& order, Index n) {
  std::vector<bool> seen(n);
  for (const Index i : order) {
    if (i < 0 || i >= n || seen[i])
      throw std::invalid_argument("the order is not a permutation of the buffers");
    seen[i] = true;
  }
  if (static_cast<Index>(order.size()) != n) {
    throw std::invalid_argument("the order is not a permutation of the buffers");
  }
}

class Packer {
 public:
  Packer(const Problem& problem, Fit fit)
      : problem_(problem), fit_(fit), ranks_(problem), units_(problem), occupancy_(problem, ranks_) {
    offset_.assign(problem.count(), kNone);
    if (problem.coincide.empty()) return;
    conflicts_ = std::make_unique<Conflicts>(problem, ranks_);
    twins_.resize(problem.count());
    for (const auto& [a, b] : problem.coincide) {
      twins_[a].push_back(b);
      twins_[b].push_back(a);
    }
  }

  Packing pack(const std::vector<Index>& order) {
    for (Index u = 0; u < units_.count(); ++u) {
      if (units_[u].pinned != kNone) put(units_[u], units_[u].pinned);
    }
    for (const Index i : order) {
      if (offset_[i] == kNone) put(units_[units_.unit_of(i)], choose(units_[units_.unit_of(i)]));
    }
    const Bytes arena = arena_of(problem_, offset_);
    return {std::move(offset_), arena};
  }

 private:
  void put(const Unit& unit, Bytes base) {
    for (const Member& member : units_.members(unit)) {
      offset_[member.buffer] = base + member.distance;
      occupancy_.insert(member.buffer, offset_[member.buffer]);
    }
  }

  Bytes choose(const Unit& unit) {
    const Bytes twin = conflicts_ ? base_on_twin(unit) : kNone;
    Occupancy::Room room = occupancy_.lowest_room(units_, unit, problem_.reserved);
    if (fit_ == Fit::kBest) {
      if (twin != kNone) return twin;  // no gap is tighter than one that is shared
      for (Occupancy::Room next = room; next.slack != kMaxBytes && room.slack > 0;) {
        next = occupancy_.lowest_room(units_, unit, checked_add(next.base + next.slack, 1));
        if (next.slack < room.slack) room = next;
      }
    }
    return twin == kNone ? room.base : std::min(room.base, twin);
  }

  // The lowest legal base that lays a member exactly over a buffer with which it may coincide, or kNone.
  Bytes base_on_twin(const Unit& unit) const {
    Bytes best = kNone;
    for (const Member& member : units_.members(unit)) {
      for (const Index twin : twins_[member.buffer]) {
        if (offset_[twin] == kNone) continue;
        const Bytes base = offset_[twin] - member.distance;
        if (best != kNone && base >= best) continue;
        if (base >= problem_.reserved && base == round_up(base, unit.step, unit.phase) &&
            free_at(unit, base)) {
          best = base;
        }
      }
    }
    return best;
  }

  bool free_at(const Unit& unit, Bytes base) const {
    for (const Member& member : units_.members(unit)) {
      const Index i = member.buffer;
      if (problem_.size[i] == 0) continue;
      const Bytes low = checked_add(base, member.distance);
      const Bytes high = checked_add(low, problem_.size[i]);
      bool free = true;
      conflicts_->visit(i, [&](Index j) {
        if (offset_[j] == kNone || offset_[j] >= high || offset_[j] + problem_.size[j] <= low) return;
        if (offset_[j] == low && std::find(twins_[i].begin(), twins_[i].end(), j) != twins_[i].end()) return;
        free = false;
      });
      if (!free) return false;
    }
    return true;
  }

  const Problem& problem_;
  const Fit fit_;
  const Ranks ranks_;
  const Units units_;
  Occupancy occupancy_;
  std::vector<Bytes> offset_;
  std::unique_ptr<Conflicts> conflicts_;   // only if some buffers may coincide
  std::vector<std::vector<Index>> twins_;  // with which each buffer may coincide
};

}  // namespace

Packing pack_in_order(const Problem& problem, const std::vector<Index>& order, Fit fit) {
  require_permutation(order, problem.count());
  return Packer(problem, fit).pack(order);
}

}  // namespace lowtide
