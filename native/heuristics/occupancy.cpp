#include "heuristics/occupancy.hpp"

#include <algorithm>
#include <cmath>

#include "problem/checked.hpp"

namespace lowtide {
namespace {

constexpr Index kFanout = 4;

// Touching logs are read when they get this long, even if nobody asks.
constexpr std::size_t kLongLog = 4096;

}  // namespace

Occupancy::Occupancy(const Problem& problem, const Ranks& ranks) : problem_(problem), ranks_(ranks) {
  cut_blocks();
  for (Index nodes = static_cast<Index>(blocks_.size());; nodes = (nodes + kFanout - 1) / kFanout) {
    levels_.emplace_back(nodes);
    if (nodes <= kFanout) break;
  }
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    for (Node& node : levels_[level]) node.all.read.resize(levels_.size() - level);
  }
  for (Block& block : blocks_) block.throughout.read.resize(levels_.size());
}

// A question reads the partials of a block one by one, so that they should be few; but every block also
// reads about what is alive in it, so blocks should be few. Both cost the same where the ends in a block
// are some multiple of the root of the number alive, the multiple being measured.
void Occupancy::cut_blocks() {
  const Index instants = ranks_.count();
  std::vector<Index> ends(instants + 1);  // how many intervals start or stop at each rank
  double lived = 0;
  for (const Span& span : ranks_.spans) {
    ++ends[span.start];
    ++ends[span.stop];
    lived += span.stop - span.start;
  }
  const double alive = instants > 0 ? lived / instants : 0;
  const Index ends_per_block = static_cast<Index>(std::max(128.0, 16 * std::sqrt(alive)));
  block_of_.resize(instants);
  Index weight = 0;
  for (Index r = 0; r < instants; ++r) {
    weight += ends[r];
    if (r == 0 || weight > ends_per_block) {
      block_start_.push_back(r);
      weight = ends[r];
    }
    block_of_[r] = static_cast<Index>(block_start_.size()) - 1;
  }
  blocks_.resize(block_start_.size());
  block_start_.push_back(instants);
}

bool Occupancy::covers(const Span& span, Index block) const {
  return span.start <= block_start_[block] && block_start_[block + 1] <= span.stop;
}

// Calls visit(level, index) for the fewest nodes that make up the blocks [from, to).
template <class Visit>
void Occupancy::visit_canonical(Index from, Index to, Visit&& visit) {
  for (std::size_t level = 0; from < to; ++level, from /= kFanout, to /= kFanout) {
    const bool top = level + 1 == levels_.size();
    while (from < to && (top || from % kFanout != 0)) visit(level, from++);
    while (from < to && to % kFanout != 0) visit(level, --to);
  }
}

void Occupancy::insert(Index buffer, Bytes offset) {
  const Bytes size = problem_.size[buffer];
  if (size == 0) return;
  const Range range{offset, checked_add(offset, size)};
  for (Index k = problem_.first[buffer]; k < problem_.first[buffer + 1]; ++k) {
    insert_span(ranks_.spans[k], range);
  }
}

void Occupancy::insert_span(const Span& span, Range range) {
  const Index first = block_of_[span.start];
  const Index last = block_of_[span.stop - 1];
  const auto insert_partial = [&](Index b) {
    auto& partials = blocks_[b].partials;
    const auto at = std::upper_bound(partials.begin(), partials.end(), range.low,
                                     [](Bytes low, const Partial& p) { return low < p.low; });
    partials.insert(at, {range.low, range.high, span});
  };
  const bool whole_first = covers(span, first);
  const bool whole_last = covers(span, last);
  if (!whole_first) insert_partial(first);
  if (!whole_last && last != first) insert_partial(last);
  const Index from = whole_first ? first : first + 1;
  const Index to = whole_last ? last + 1 : last;
  visit_canonical(from, to,
                  [&](std::size_t level, Index index) { levels_[level][index].throughout.push_back(range); });

  // The nodes above the ends that it touches but does not fill, nor finds filled from above.
  Index begin = 0, end = 0;  // the blocks of a node
  Index width = 1;
  for (std::size_t level = 0; level < levels_.size(); ++level, width *= kFanout) {
    Index previous = -1;
    for (const Index index : {first / width, last / width}) {
      begin = index * width;
      end = std::min(begin + width, static_cast<Index>(blocks_.size()));
      if (index == previous || (from <= begin && end <= to)) continue;
      previous = index;
      Node& node = levels_[level][index];
      node.touching.push_back(range);
      if (node.touching.size() >= kLongLog) {
        node.all.taken.insert_all(node.touching);
        node.touching.clear();
      }
    }
  }
}

// Reads what is new in the logs of the node and of those above it.
void Occupancy::catch_up(Digest& digest, std::size_t level, Index index) {
  batch_.clear();
  for (std::size_t k = 0; level + k < levels_.size(); ++k, index /= kFanout) {
    const Ranges& log = levels_[level + k][index].throughout;
    batch_.insert(batch_.end(), log.begin() + digest.read[k], log.end());
    digest.read[k] = static_cast<Index>(log.size());
  }
  if (!batch_.empty()) digest.taken.insert_all(batch_);
}

const RangeSet& Occupancy::all_of(std::size_t level, Index index) {
  Node& node = levels_[level][index];
  catch_up(node.all, level, index);
  if (!node.touching.empty()) {
    node.all.taken.insert_all(node.touching);
    node.touching.clear();
  }
  return node.all.taken;
}

void Occupancy::add_walker(const RangeSet& set, Bytes distance, Bytes size) {
  for (const Ranges& ranges : set.layers()) {
    if (ranges.empty()) continue;
    const Range* begin = ranges.data();
    walkers_.push_back({begin, begin + ranges.size(), nullptr, nullptr, {0, 0}, distance, size});
  }
}

void Occupancy::add_walker(const std::vector<Partial>& partials, const Span& span, Bytes distance,
                           Bytes size) {
  if (partials.empty()) return;
  walkers_.push_back(
      {nullptr, nullptr, partials.data(), partials.data() + partials.size(), span, distance, size});
}

void Occupancy::add_walkers(const Span& span, Bytes distance, Bytes size) {
  const Index first = block_of_[span.start];
  const Index last = block_of_[span.stop - 1];
  const auto add_end = [&](Index b) {
    catch_up(blocks_[b].throughout, 0, b);
    add_walker(blocks_[b].throughout.taken, distance, size);
    add_walker(blocks_[b].partials, span, distance, size);
  };
  const bool whole_first = covers(span, first);
  const bool whole_last = covers(span, last);
  if (!whole_first) add_end(first);
  if (!whole_last && last != first) add_end(last);
  visit_canonical(whole_first ? first : first + 1, whole_last ? last + 1 : last,
                  [&](std::size_t level, Index index) { add_walker(all_of(level, index), distance, size); });
}

// Moves the walker past everything below the member's place, and the base up if something is in its way.
// Returns whether the base moved.
bool Occupancy::advance(Walker& w, Bytes& base) const {
  const Bytes before = base;
  Bytes low = base + w.distance;
  const auto make_way = [&](Bytes high) {
    base = round_up(high - w.distance, unit_->step, unit_->phase);
    if (base > highest_base_) throw_overflow();
    low = base + w.distance;
  };
  // The next range is mostly the one after this, or else far.
  if (w.range != w.range_end && w.range->high <= low && ++w.range != w.range_end && w.range->high <= low) {
    w.range = std::upper_bound(w.range, w.range_end, low,
                               [](Bytes value, const Range& r) { return value < r.high; });
  }
  for (; w.range != w.range_end && w.range->low < low + w.size; ++w.range) {
    if (w.range->high > low) make_way(w.range->high);
  }
  for (; w.partial != w.partial_end && w.partial->low < low + w.size; ++w.partial) {
    if (w.partial->high > low && overlap(w.partial->span, w.span)) make_way(w.partial->high);
  }
  return base != before;
}

// How far up the member could slide before it meets what the walker walks on.
Bytes Occupancy::ceiling(const Walker& w) {
  if (w.range != w.range_end) return w.range->low - w.size - w.distance;
  for (const Partial* p = w.partial; p != w.partial_end; ++p) {
    if (overlap(p->span, w.span)) return p->low - w.size - w.distance;
  }
  return kMaxBytes;
}

void Occupancy::seek(const Units& units, const Unit& unit) {
  unit_ = &unit;
  walkers_.clear();
  Bytes reach = 0;
  for (const Member& member : units.members(unit)) {
    const Bytes size = problem_.size[member.buffer];
    reach = std::max(reach, checked_add(member.distance, size));
    if (size == 0) continue;
    for (Index k = problem_.first[member.buffer]; k < problem_.first[member.buffer + 1]; ++k) {
      add_walkers(ranks_.spans[k], member.distance, size);
    }
  }
  highest_base_ = kMaxBytes - reach;
}

Occupancy::Room Occupancy::next_room(Bytes floor) {
  Bytes base = round_up(floor, unit_->step, unit_->phase);
  if (base > highest_base_) throw_overflow();

  // Round and round until nobody has objected for one full round.
  const std::size_t n = walkers_.size();
  for (std::size_t content = 0, k = 0; content < n; k = k + 1 == n ? 0 : k + 1) {
    content = advance(walkers_[k], base) ? 1 : content + 1;
  }
  Bytes top = kMaxBytes;
  for (const Walker& walker : walkers_) top = std::min(top, ceiling(walker));
  return {base, top == kMaxBytes ? kMaxBytes : top - base};
}

void Occupancy::clear() {
  const auto forget = [](Digest& digest) {
    digest.taken.clear();
    std::fill(digest.read.begin(), digest.read.end(), 0);
  };
  for (Block& block : blocks_) {
    forget(block.throughout);
    block.partials.clear();
  }
  for (auto& level : levels_) {
    for (Node& node : level) {
      node.throughout.clear();
      node.touching.clear();
      forget(node.all);
    }
  }
}

}  // namespace lowtide
