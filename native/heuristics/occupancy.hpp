// Which bytes are taken when: answers "where is the lowest room?" without looking at every neighbour.
//
// Time is cut into blocks of some dozens of starts, and over the blocks lies a tree. A block keeps the bytes
// taken throughout it as merged ranges, and the buffers that are alive in only a part of it as a list; an
// inner node keeps the merged ranges of whatever touches it. A question about a lifetime looks at the lists
// of the two blocks at its ends and at O(log) nodes between, and since a tight packing merges into few
// ranges, it skips whole stacks of neighbours at once.
//
// A long lifetime crosses many blocks. It is therefore only noted in the logs of the O(log) nodes that make
// it up, as in a segment tree; a node that is asked reads what is new in the logs of itself and the nodes
// above it, and merges that in one go.
#pragma once

#include <vector>

#include "heuristics/range_set.hpp"
#include "problem/problem.hpp"
#include "problem/ranks.hpp"
#include "problem/units.hpp"

namespace lowtide {

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
  // Bytes that are taken according to some logs, and how far each of these has been read.
  struct Digest {
    RangeSet taken;
    std::vector<Index> read;  // by level, from the node's own upwards
  };
  struct Node {
    Ranges throughout;  // log: taken during all of the node, and not noted above it
    Ranges touching;    // log: taken during a part of it; emptied when read
    Digest all;         // everything that touches it
  };
  // A block is a node without children.
  struct Block {
    Digest throughout;
    std::vector<Partial> partials;  // by low
  };
  // Walks one set of taken bytes upwards, on behalf of one member of the unit.
  struct Walker {
    const Range* range;  // either ranges,
    const Range* range_end;
    const Partial* partial;  // or partials, of which those that overlap `span` count
    const Partial* partial_end;
    Span span;
    Bytes distance;
    Bytes size;
  };

  void cut_blocks();
  bool covers(const Span& span, Index block) const;
  void insert_span(const Span& span, Range range);
  template <class Visit>
  void visit_canonical(Index from, Index to, Visit&& visit);
  void catch_up(Digest& digest, std::size_t level, Index index);
  const RangeSet& all_of(std::size_t level, Index index);
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
  std::vector<std::vector<Node>> levels_;  // levels_[0] lies over the blocks, one each; then ever fewer
  Ranges batch_;

  // Of the unit for which room is sought:
  const Unit* unit_ = nullptr;
  std::vector<Walker> walkers_;
  Bytes highest_base_ = 0;  // at which the unit's top does not pass 2^63 - 1
};

}  // namespace lowtide
