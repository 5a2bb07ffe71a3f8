// The exact search for problems without pins, placements and permissions.
//
// A state is a set of unplaced buffers U and, for each, a lower bound on its offset; it stands for the
// question whether they can be packed under the ceiling with every offset at or above its bound. What is
// placed already matters only through those bounds. One step picks a buffer j beneath which no unplaced
// neighbour fits (the top of each, at its least offset, is above j's bound; the buffer of least bound is
// always such), and asks two smaller questions that together are the same question:
//
//   1. j lies at its bound. No neighbour can lie beneath it, so each lies above j's top: they are raised to
//   it.
//   2. j lies higher. If there is a packing at all, there is one of least sum of offsets; in that one j
//   cannot
//      be lowered by one alignment step, so it rests on an unplaced neighbour, whose top is at least the
//      lowest top of them all: j is raised to that. With no such neighbour, there is no such packing.
//
// Any j will do, so the order of picking is free; it goes by least bound, then by a static order, which is
// what restarts vary. (The two-way branching is that of Le Pape et al.'s SetTimes (1994) in scheduling.)
#pragma once

#include <atomic>
#include <vector>

#include "exact/instance.hpp"
#include "exact/memo.hpp"
#include "exact/rules.hpp"

namespace lowtide {

enum class Outcome { kFound, kInfeasible, kStopped };

class CanonicalSearch {
 public:
  CanonicalSearch(const Instance& instance, const RuleSet& rules);

  // Looks for offsets that fit within `arena` bytes; ties are broken by `order`, a permutation of the
  // instance's buffers. Gives up after `node_limit` nodes or when `stop` is set.
  // Remembers in `dead_ends`, which may be shared among instances whose `salt` differs, but not threads.
  Outcome run(Bytes arena, const std::vector<Index>& order, std::int64_t node_limit,
              const std::atomic<bool>& stop, DeadEnds& dead_ends, std::uint64_t salt);

  // After kFound: the offset of the instance's buffer j in bytes.
  Bytes offset(Index j) const { return instance_.origin + bound_[j] * instance_.quantum; }
  std::int64_t nodes() const { return nodes_; }

  // How often each section was where a dead end showed, in all runs so far; decayed by `forget`.
  const std::vector<double>& conflicts() const { return conflicts_; }
  void forget(double factor);

 private:
  struct Change {
    enum Kind : std::uint8_t { kBound, kTop, kPlaced } kind;
    Index index;
    Bytes before;
  };

  void reset(Bytes arena, const std::vector<Index>& order);
  Outcome solve(Index begin, Index end);
  Outcome solve_rest(Index begin, Index end, Index placed);
  Index pick(Index begin, Index end, StateHash* state) const;
  bool place(Index j);
  bool postpone(Index j);
  bool raise(Index j, Bytes bound);
  bool propagate();
  bool propagate_section(Index section);
  void touch(Index section);
  void undo(std::size_t mark);

  const Instance& instance_;
  const std::vector<Bytes>& size_;  // of the instance
  const RuleSet rules_;

  Bytes arena_ = 0;
  Bytes ceiling_ = 0;  // quanta
  std::int64_t node_limit_ = 0;
  std::int64_t nodes_ = 0;
  const std::atomic<bool>* stop_ = nullptr;

  std::vector<Bytes> bound_;   // the least offset left to a buffer; its offset once it is placed
  std::vector<Bytes> latest_;  // the greatest
  std::vector<char> placed_;
  std::vector<Index> order_;  // parts of the problem are ranges of this
  std::vector<Index> rank_;

  std::vector<Index> live_;        // as instance_.live, but the unplaced of each section come first
  std::vector<Index> live_count_;  // so many
  std::vector<Index> slot_;        // as instance_.sections: where in live_ the buffer stands
  std::vector<Bytes> unplaced_;    // by section: quanta still to be placed
  std::vector<Bytes> top_;         // by section: top of what is placed
  std::vector<Index> crossing_;    // by section: unplaced buffers alive before it and from it on

  std::vector<Change> trail_;
  std::vector<Index> queue_;
  std::vector<char> queued_;
  std::vector<double> conflicts_;
  DeadEnds* dead_ends_ = nullptr;
  std::uint64_t salt_ = 0;
};

}  // namespace lowtide
