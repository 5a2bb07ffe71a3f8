// What is moved as one: a single buffer, or a rigid group of buffers at fixed distances.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "problem/problem.hpp"

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

// A rigid group whose distances, alignments or pins cannot all be kept; `buffer` is one of it.
struct Contradiction : std::invalid_argument {
  Contradiction(Index buffer, const std::string& what)
      : std::invalid_argument("rigid group of buffer " + std::to_string(buffer) + ": " + what),
        buffer(buffer),
        reason(what) {}
  Index buffer;
  std::string reason;
};

class Units {
 public:
  // Throws Contradiction.
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
