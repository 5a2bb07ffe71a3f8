#include "heuristics/order_packer.hpp"

#include <algorithm>

#include "heuristics/orders.hpp"
#include "problem/checked.hpp"

namespace lowtide {
Setting::Setting(const Problem& p) : problem(p), ranks(p), units(p) {
  if (p.coincide.empty()) return;
  conflicts = std::make_unique<Conflicts>(p, ranks);
  twins.resize(p.count());
  for (const auto& [a, b] : p.coincide) {
    twins[a].push_back(b);
    twins[b].push_back(a);
  }
}

OrderPacker::OrderPacker(const Setting& setting)
    : setting_(setting), occupancy_(setting.problem, setting.ranks) {}

bool OrderPacker::pack(const std::vector<Index>& order, Fit fit, const std::function<bool()>& stop,
                       Packing& packing) {
  const Units& units = setting_.units;
  std::vector<Bytes>& offset = packing.offset;
  offset.assign(setting_.problem.count(), kNone);
  occupancy_.clear();
  for (Index u = 0; u < units.count(); ++u) {
    if (units[u].pinned != kNone) put(units[u], units[u].pinned, offset);
  }
  for (const Index i : order) {
    if (stop()) return false;
    if (offset[i] != kNone) continue;
    const Unit& unit = units[units.unit_of(i)];
    put(unit, choose(unit, fit, offset), offset);
  }
  packing.arena = arena_of(setting_.problem, offset);
  return true;
}

void OrderPacker::put(const Unit& unit, Bytes base, std::vector<Bytes>& offset) {
  for (const Member& member : setting_.units.members(unit)) {
    offset[member.buffer] = checked_add(base, member.distance);
    occupancy_.insert(member.buffer, offset[member.buffer]);
  }
}

Bytes OrderPacker::choose(const Unit& unit, Fit fit, const std::vector<Bytes>& offset) {
  const auto members = setting_.units.members(unit);
  const auto is_empty = [&](const Member& member) { return setting_.problem.size[member.buffer] == 0; };
  // What takes no bytes is in nobody's way, not even in the reserved prefix: it must not raise the arena.
  if (std::all_of(members.begin(), members.end(), is_empty)) return unit.phase;
  const Bytes twin = setting_.conflicts ? base_on_twin(unit, offset) : kNone;
  occupancy_.seek(setting_.units, unit);
  Occupancy::Room room = occupancy_.next_room(setting_.problem.reserved);
  if (fit == Fit::kBest) {
    if (twin != kNone) return twin;  // no gap is tighter than one that is shared
    for (Occupancy::Room next = room; next.slack != kMaxBytes && room.slack > 0;) {
      next = occupancy_.next_room(checked_add(next.base + next.slack, 1));
      if (next.slack < room.slack) room = next;
    }
  }
  return twin == kNone ? room.base : std::min(room.base, twin);
}

// The lowest legal base that lays a member exactly over a buffer with which it may coincide, or kNone.
Bytes OrderPacker::base_on_twin(const Unit& unit, const std::vector<Bytes>& offset) const {
  Bytes best = kNone;
  for (const Member& member : setting_.units.members(unit)) {
    for (const Index twin : setting_.twins[member.buffer]) {
      if (offset[twin] == kNone) continue;
      const Bytes base = offset[twin] - member.distance;
      if (best != kNone && base >= best) continue;
      if (base >= setting_.problem.reserved && base == round_up(base, unit.step, unit.phase) &&
          free_at(unit, base, offset)) {
        best = base;
      }
    }
  }
  return best;
}

bool OrderPacker::free_at(const Unit& unit, Bytes base, const std::vector<Bytes>& offset) const {
  const Problem& problem = setting_.problem;
  bool free = true;
  for (const Member& member : setting_.units.members(unit)) {
    const Index i = member.buffer;
    if (problem.size[i] == 0) continue;
    const Bytes low = checked_add(base, member.distance);
    const Bytes high = checked_add(low, problem.size[i]);
    const std::vector<Index>& twins = setting_.twins[i];
    setting_.conflicts->visit(i, [&](Index j) {
      if (offset[j] == kNone || offset[j] >= high || offset[j] + problem.size[j] <= low) return;
      if (offset[j] == low && std::find(twins.begin(), twins.end(), j) != twins.end()) return;
      free = false;
    });
  }
  return free;
}

Packing pack_in_order(const Problem& problem, const std::vector<Index>& order, Fit fit) {
  require_permutation(order, problem.count());
  const Setting setting(problem);
  Packing packing;
  OrderPacker(setting).pack(order, fit, [] { return false; }, packing);
  return packing;
}

}  // namespace lowtide
