// What is moved as one: a single buffer, or a rigid group of buffers at fixed distances.
#pragma once

#include <span>
#include <vector>

#include "problem.hpp"

namespace lowtide {

struct Member {
  Index buffer;
  Bytes distance;  // above the unit's base, >= 0
};

struct Unit {
  Index first;  // members [first, last) of Units::members
  Index last;
  Bytes step;  // a legal base is phase (mod step), whatever the members' alignments
  Bytes phase;
  Bytes pinned;  // the base that a pinned member forces, or kNone
};

class Units {
 public:
  // Throws std::invalid_argument if a group's distances, alignments or pins contradict each other.
  explicit Units(const Problem& problem);

  std::span<const Member> members(const Unit& unit) const {
    return {members_.data() + unit.first, static_cast<std::size_t>(unit.last - unit.first)};
  }
  Index count() const { return static_cast<Index>(units_.size()); }
  const Unit& operator[](Index u) const { return units_[u]; }
  Index unit_of(Index buffer) const { return unit_of_[buffer]; }

 private:
  void gather(const Problem& problem);
  void settle(const Problem& problem, Unit& unit);

  std::vector<Unit> units_;
  std::vector<Member> members_;
  std::vector<Index> unit_of_;
};

}  // namespace lowtide
