#include "problem/units.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "problem/checked.hpp"

namespace lowtide {
namespace {

using Wide = __int128;

// The inverse of `value` modulo `modulus`, which share no factor; by Euclid's extended algorithm.
Wide inverse(Wide value, Wide modulus) {
  Wide r0 = modulus, r1 = value % modulus, t0 = 0, t1 = 1;
  while (r1 != 0) {
    const Wide quotient = r0 / r1;
    r0 = std::exchange(r1, r0 - quotient * r1);
    t0 = std::exchange(t1, t0 - quotient * t1);
  }
  return t0 < 0 ? t0 + modulus : t0;
}

// Intersects base = phase (mod step) with base = -distance (mod alignment): the Chinese remainder theorem.
void constrain(Unit& unit, Bytes alignment, Bytes distance, Index buffer) {
  const Bytes wanted = (alignment - distance % alignment) % alignment;
  const Bytes common = std::gcd(unit.step, alignment);
  if ((unit.phase - wanted) % common != 0) throw Contradiction(buffer, "alignments cannot all be met");
  const Wide coprime = alignment / common;
  const Wide step = unit.step * coprime;
  if (step > kMaxBytes) throw_overflow();
  Wide steps =
      static_cast<Wide>(wanted - unit.phase) / common * inverse(unit.step / common, coprime) % coprime;
  if (steps < 0) steps += coprime;
  unit.phase = static_cast<Bytes>((unit.phase + unit.step * steps) % step);
  unit.step = static_cast<Bytes>(step);
}

}  // namespace

Units::Units(const Problem& problem) {
  gather(problem);
  for (Unit& unit : units_) settle(problem, unit);
}

// Lists the units and their members, each member at its distance from the first one met.
void Units::gather(const Problem& problem) {
  const Index n = problem.count();
  std::vector<std::vector<Member>> linked;  // only if there is any link at all
  if (!problem.placements.empty()) linked.resize(n);
  for (const Placement& placement : problem.placements) {
    linked[placement.outer].push_back({placement.inner, placement.distance});
    linked[placement.inner].push_back({placement.outer, -placement.distance});
  }

  unit_of_.assign(n, -1);
  members_.reserve(n);
  for (Index seed = 0; seed < n; ++seed) {
    if (unit_of_[seed] >= 0) continue;
    const Index first = static_cast<Index>(members_.size());
    unit_of_[seed] = count();
    members_.push_back({seed, 0});
    if (!linked.empty()) {
      for (Index k = first; k < static_cast<Index>(members_.size()); ++k) {
        const Member from = members_[k];
        for (const Member& link : linked[from.buffer]) {
          if (unit_of_[link.buffer] >= 0) continue;
          unit_of_[link.buffer] = count();
          members_.push_back({link.buffer, checked_add(from.distance, link.distance)});
        }
      }
    }
    units_.push_back({first, static_cast<Index>(members_.size()), 1, 0, kNone});
  }

  std::vector<Bytes> distance(n);
  for (const Member& member : members_) distance[member.buffer] = member.distance;
  for (const Placement& p : problem.placements) {
    if (distance[p.inner] - distance[p.outer] != p.distance)
      throw Contradiction(p.inner, "distances disagree");
  }
}

// Makes the lowest member the base, and works out where the base may be.
void Units::settle(const Problem& problem, Unit& unit) {
  Member* const begin = members_.data() + unit.first;
  Member* const end = members_.data() + unit.last;
  Bytes lowest = 0;
  for (Member* m = begin; m != end; ++m) lowest = std::min(lowest, m->distance);
  for (Member* m = begin; m != end; ++m) {
    m->distance = checked_add(m->distance, -lowest);
    constrain(unit, problem.alignment[m->buffer], m->distance, m->buffer);
    const Bytes pin = problem.pin[m->buffer];
    if (pin == kNone) continue;
    const Bytes base = pin - m->distance;
    if (base < 0) throw Contradiction(m->buffer, "a pin puts a member below 0");
    if (unit.pinned != kNone && unit.pinned != base) throw Contradiction(m->buffer, "pins disagree");
    unit.pinned = base;
  }
  if (unit.pinned != kNone && (unit.pinned - unit.phase) % unit.step != 0) {
    throw Contradiction(begin->buffer, "a pin is at odds with an alignment");
  }
}

}  // namespace lowtide
