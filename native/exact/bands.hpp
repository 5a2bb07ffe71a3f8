// The exact search for problems with pins, rigid groups and buffers that may coincide.
//
// Pins and rigid groups leave holes below overhangs, and a group can be kept up by another that it keeps up
// itself, so left-justified packing from the floor upwards is incomplete here. What is complete:
// two units that are ever alive together may differ in base by certain amounts only, which form *bands*,
// closed intervals (a above b; a below b; exactly over it where they may coincide; interlocked groups may
// have more in between). A packing chooses one band for each pair, and conversely, once each pair has its
// band, what is left are constraints base(u) >= base(v) + d and base(u) = phase (mod step). Solutions of such
// a system are closed under taking the lesser value unit by unit, so if there is any there is a least one,
// which raising bounds to a fixed point finds. Hence: decide bands one pair at a time, keep all bounds at the
// fixed point, and branch only on a pair that the least solution so far leaves in no band. If there is no
// such pair the least solution is a packing; if a bound leaves its range, no packing has these bands.
// (Disjunctive graphs: Roy and Sussmann (1964); branching on the least solution's conflicts: Cesta, Oddi and
// Smith (2002).)
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "exact/canonical.hpp"
#include "exact/rules.hpp"
#include "problem/problem.hpp"
#include "problem/sharing.hpp"
#include "problem/units.hpp"

namespace lowtide {

class BandSearch {
 public:
  // `members` are units of the problem. Check possible() before use.
  BandSearch(const Problem& problem, const Units& units, const std::vector<Index>& members,
             const RuleSet& rules);

  // False if a unit conflicts within itself, or two units never fit together.
  bool possible() const { return possible_; }

  // Looks for bases with which everything ends within `arena` bytes. `order` ranks positions in `members`:
  // of two in conflict, the earlier keeps its place.
  Outcome run(Bytes arena, const std::vector<Index>& order, std::int64_t node_limit,
              const std::atomic<bool>& stop);

  // After kFound: the base of members[k].
  Bytes base(Index k) const { return low_[k]; }
  std::int64_t nodes() const { return nodes_; }

 private:
  struct Band {
    Bytes low;  // base(u) - base(v) is in [low, high]
    Bytes high;
  };
  struct Pair {
    Index u, v;
    Index first, last;  // bands [first, last), ascending
  };
  struct Edge {
    Index to;  // base(to) >= base(from) + distance
    Bytes distance;
  };
  struct Reason {
    Index unit = -1;  // whose bound pushed; -1 if nothing did
    Bytes distance = 0;
  };
  struct Change {
    enum Kind : std::uint8_t { kLow, kHigh, kDecided, kEdge } kind;
    Index index;
    Bytes before;
    Reason reason;
  };
  // Where a buffer belongs: which unit here, and how far above its base.
  struct Home {
    Index unit;
    Bytes distance;
  };
  // A buffer of a section, seen from its unit.
  struct Piece {
    Index unit;
    Bytes distance, size;
  };

  void link();
  void link_pairs(const std::vector<std::pair<Index, Index>>& together, const std::vector<Home>& home,
                  const Sharing& sharing);
  void add_pair(Index u, Index v, const std::vector<Band>& forbidden);
  void add_section(const std::vector<Index>& buffers, const std::vector<Home>& home);

  bool start(Bytes arena);
  Outcome solve();
  Index pick() const;
  bool satisfied(const Pair& pair) const;
  bool feasible(const Pair& pair, const Band& band) const;
  std::vector<Index> bands_to_try(const Pair& pair) const;
  bool decide(Index pair, Index band);
  void connect(Index from, Index to, Bytes distance);
  bool raise(Index u, Bytes low, Reason reason);
  bool lower(Index u, Bytes high, Reason reason);
  bool grows(Index u, const std::vector<Reason>& reasons) const;
  bool propagate();
  bool push_bounds();
  bool force_bands(Index u);
  bool section_fits(Index section) const;
  void touch(Index u);
  void undo(std::size_t mark);

  const Problem& problem_;
  const Units& units_;
  const std::vector<Index> members_;
  const RuleSet rules_;
  bool possible_ = true;

  std::vector<Pair> pairs_;
  std::vector<Band> bands_;
  std::vector<std::vector<Index>> pairs_of_;     // by unit
  std::vector<std::vector<Index>> sections_of_;  // by unit
  std::vector<std::vector<Piece>> sections_;     // buffers of a section no two of which can share a byte

  Bytes arena_ = 0;
  std::int64_t node_limit_ = 0;
  std::int64_t nodes_ = 0;
  const std::atomic<bool>* stop_ = nullptr;
  std::vector<Index> rank_;
  std::vector<Bytes> low_, high_;
  std::vector<std::vector<Edge>> above_, below_;  // edges by their lower end, and by their upper
  std::vector<char> decided_;                     // by pair
  std::vector<Reason> low_reason_, high_reason_;
  std::vector<Index> pushes_;  // by unit, since propagation began
  std::vector<Change> trail_;
  std::vector<Index> queue_;  // units whose bounds changed
  std::vector<char> queued_;
  std::vector<Index> changed_;  // the same, without repetition, until sections and pairs are looked at
  std::vector<char> is_changed_;
};

}  // namespace lowtide
