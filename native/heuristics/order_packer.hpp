// Placing buffers one after the other, each where it fits best among those already there.
//
// First fit takes the lowest legal offset, best fit the tightest gap. In decreasing order of size, area or
// duration they are the classical heuristics of Sekiyama et al. (2018) and of Pisarchyk and Lee (2020).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "heuristics/occupancy.hpp"
#include "problem/conflicts.hpp"
#include "problem/packing.hpp"
#include "problem/problem.hpp"
#include "problem/ranks.hpp"
#include "problem/units.hpp"

namespace lowtide {

enum class Fit { kFirst, kBest };

// What every pass over a problem needs to know and none changes; shared between threads.
struct Setting {
  explicit Setting(const Problem& problem);

  const Problem& problem;
  const Ranks ranks;
  const Units units;
  std::vector<std::vector<Index>> twins;       // with which each buffer may coincide; empty if none may
  std::unique_ptr<const Conflicts> conflicts;  // only if some may
};

// Packs again and again, in any order; keeps its memory in between.
class OrderPacker {
 public:
  explicit OrderPacker(const Setting& setting);

  // Packs in the given order, a permutation of the buffers; a rigid group goes where its first member is in
  // the order, pinned buffers go first of all. The capacity is not looked at: compare it with the arena.
  // `stop` is asked before each placement; once it says yes, there is no packing, and the answer is false.
  bool pack(const std::vector<Index>& order, Fit fit, const std::function<bool()>& stop, Packing& packing);

 private:
  void put(const Unit& unit, Bytes base, std::vector<Bytes>& offset);
  Bytes choose(const Unit& unit, Fit fit, const std::vector<Bytes>& offset);
  Bytes base_on_twin(const Unit& unit, const std::vector<Bytes>& offset) const;
  bool free_at(const Unit& unit, Bytes base, const std::vector<Bytes>& offset) const;

  const Setting& setting_;
  Occupancy occupancy_;
};

// One such pass. Throws std::invalid_argument if `order` is no permutation, std::overflow_error past 2^63
// - 1.
Packing pack_in_order(const Problem& problem, const std::vector<Index>& order, Fit fit);

}  // namespace lowtide
