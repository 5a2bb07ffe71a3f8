// Which bytes are taken when: answers "where is the lowest room?" without looking at every neighbour.
//
// Time is cut into blocks of a few hundred starts. For each block the bytes taken throughout are kept
// as merged ranges, and the buffers that are alive only in a part of it as a list; over the blocks lies
// a segment tree whose nodes hold the merged ranges of whatever touches them. A question about a
// lifetime looks at the lists of the two blocks at its ends and at O(log blocks) nodes between, and since
// a tight packing merges into few ranges, it skips whole stacks of neighbours at once.
#pragma once

#include <vector>

#include "problem.hpp"
#include "ranks.hpp"
#include "units.hpp"

namespace lowtide {

// Disjoint byte ranges, ascending; neighbours that touch are merged.
class RangeSet {
 public:
  struct Range {
    Bytes low;
    Bytes high;
  };

  void insert(Bytes low, Bytes high);
  void clear() { ranges_.clear(); }
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

class Occupancy {
 public:
  Occupancy(const Problem& problem, const Ranks& ranks);

  void insert(Index buffer, Bytes offset);

  // Forgets everything inserted, but keeps the memory.
  void clear();

  // A legal base for a unit, the lowest in its gap, and the room above it: the unit could slide up by `slack`
  // bytes (kMaxBytes if nothing is above).
  struct Room {
    Bytes base;
    Bytes slack;
  };

  // Starts to look for room for a unit; next_room then finds the lowest base >= floor at which the unit
  // overlaps nothing inserted. Later floors must be higher.
  void seek(const Units& units, const Unit& unit);
  Room next_room(Bytes floor);

 private:
  struct Partial {
    Bytes low;
    Bytes high;
    Span span;
  };
  struct Block {
    RangeSet throughout;
    std::vector<Partial> partials;  // by low
  };
  // Walks one set of taken bytes upwards, on behalf of one member of the unit.
  struct Walker {
    const RangeSet::Range* range;  // either ranges,
    const RangeSet::Range* range_end;
    const Partial* partial;  // or partials, of which those that overlap `span` count
    const Partial* partial_end;
    Span span;
    Bytes distance;
    Bytes size;
  };

  void cut_blocks();
  void insert_span(const Span& span, Bytes low, Bytes high);
  void add_walkers(const Span& span, Bytes distance, Bytes size);
  void add_walker(const RangeSet& set, Bytes distance, Bytes size);
  void add_walker(const std::vector<Partial>& partials, const Span& span, Bytes distance, Bytes size);
  bool advance(Walker& walker, Bytes& base) const;
  static Bytes ceiling(const Walker& walker);

  const Problem& problem_;
  const Ranks& ranks_;
  std::vector<Index> block_of_;     // rank -> block
  std::vector<Index> block_start_;  // block -> first rank; one past the end too
  std::vector<Block> blocks_;
  Index leaves_ = 1;            // blocks, rounded up to a power of two
  std::vector<RangeSet> tree_;  // heap order; leaf b at leaves_ + b

  // Of the unit for which room is sought:
  const Unit* unit_ = nullptr;
  std::vector<Walker> walkers_;
  Bytes highest_base_ = 0;  // at which the unit's top does not pass 2^63 - 1
};

}  // namespace lowtide
