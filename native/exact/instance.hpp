// A part of a problem that stands on its own in time, in the form that the canonical search wants.
//
// Time is cut into sections, within each of which the same buffers are alive. Offsets are counted in
// steps of `quantum` bytes from `origin`. No pins, placements or permissions: see Bands for those.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "exact/rules.hpp"
#include "problem/problem.hpp"

namespace lowtide {

// Rows of unequal length in one array.
struct Rows {
  std::vector<Index> first{0};
  std::vector<Index> entries;

  std::span<const Index> operator[](Index row) const {
    return {entries.data() + first[row], static_cast<std::size_t>(first[row + 1] - first[row])};
  }
  void close_row() { first.push_back(static_cast<Index>(entries.size())); }
};

struct Instance {
  std::vector<Index> buffer;     // which buffer of the problem each one is
  std::vector<Bytes> bytes;      // its size in bytes
  std::vector<Bytes> size;       // and in quanta, rounded up
  std::vector<Bytes> alignment;  // in quanta, counted from the origin
  std::vector<Bytes> lowest;     // the least offset it can have at all, in quanta
  std::vector<Index> next_twin;  // the next buffer equal to it in everything, or -1

  Bytes quantum = 1;  // bytes
  Bytes origin = 0;   // bytes

  Rows live;        // section -> buffers
  Rows sections;    // buffer -> sections, ascending
  Rows neighbours;  // buffer -> buffers alive together with it

  Index count() const { return static_cast<Index>(buffer.size()); }
  Index section_count() const { return static_cast<Index>(live.first.size()) - 1; }

  // The highest offset of buffer j in quanta in an arena of so many bytes; negative if it cannot fit.
  Bytes latest(Index j, Bytes arena) const;
  // The least arena in bytes, not below the one given, in which some buffer ends at the very top.
  Bytes attainable(Bytes arena) const;
  // The largest live sum in bytes, rounded up to what is attainable.
  Bytes peak() const;
  Bytes section_bytes(Index section) const;
};

// Different buffers of positive size, with the alignment to use for each; no pin, placement or permission is
// looked at. Nothing if it would take more than `limit` steps of work, which are about four bytes each too.
// Sizes and alignments must not add up to more than 2^63 - 1.
std::optional<Instance> make_instance(const Problem& problem, const std::vector<Index>& buffers,
                                      const std::vector<Bytes>& alignment, const RuleSet& rules,
                                      std::int64_t limit);

// The same instance, cut down to what is alive in sections [begin, end).
Instance cut_window(const Instance& instance, Index begin, Index end, const RuleSet& rules);

}  // namespace lowtide
