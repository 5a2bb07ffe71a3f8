// A problem taken apart in time: stretches that no buffer crosses are packed independently of one another.
#pragma once

#include <optional>
#include <vector>

#include "exact/instance.hpp"
#include "exact/rules.hpp"
#include "problem/problem.hpp"
#include "problem/sharing.hpp"
#include "problem/units.hpp"

namespace lowtide {

struct Part {
  std::vector<Index> units;          // of Parts::units()
  std::optional<Instance> instance;  // if it is free of pins, rigid groups and sharing, and not too large
  bool searchable = false;           // whether exact search can take it on at all
  Bytes bound = 0;                   // no packing of it ends below this
  Bytes roof = 0;                    // if it can be packed at all, it can be so within this
};

class Parts {
 public:
  // Throws std::invalid_argument if a rigid group contradicts itself, std::overflow_error if sums pass 2^63
  // - 1.
  Parts(const Problem& problem, const RuleSet& rules);

  const Problem& problem() const { return problem_; }
  const Units& units() const { return units_; }
  std::vector<Part>& list() { return list_; }
  const std::vector<Part>& list() const { return list_; }

  // What no packing of the whole problem can beat, and what each can reach.
  Bytes bound() const;

  // An offset for every buffer, right for units with no bytes at all and to be overwritten for others.
  std::vector<Bytes> empty_offsets() const;
  // Writes the offsets of a unit's buffers.
  void put(Index unit, Bytes base, std::vector<Bytes>& offset) const;
  // Where the part ends with these offsets.
  Bytes arena_of(const Part& part, const std::vector<Bytes>& offset) const;

 private:
  bool is_plain(const Unit& unit) const;
  Index outermost(const Unit& unit) const;
  void find_sharers();
  std::vector<Part> group() const;
  void prepare(Part& part, const RuleSet& rules);
  Bytes roof(const Part& part) const;
  Bytes live_bound(const Part& part) const;

  const Problem& problem_;
  const Units units_;
  const Sharing sharing_;
  std::vector<char> shares_;  // by buffer: alive together with one that it may coincide with
  std::vector<Part> list_;
};

}  // namespace lowtide
