#include "occupancy.hpp"

#include <algorithm>

#include "checked.hpp"

namespace lowtide {
namespace {

// Intervals that start or stop inside a block are looked at one by one, so blocks are kept small; but each
// long interval is written into every block that it crosses, so not too small.
constexpr Index kEndsPerBlock = 256;

}  // namespace

void RangeSet::insert(Bytes low, Bytes high) {
  // Everything that touches [low, high] melts into one range.
  auto first = std::lower_bound(ranges_.begin(), ranges_.end(), low,
                                [](const Range& range, Bytes value) { return range.high < value; });
  auto last = first;
  while (last != ranges_.end() && last->low <= high) {
    low = std::min(low, last->low);
    high = std::max(high, last->high);
    ++last;
  }
  if (first == last) {
    ranges_.insert(first, {low, high});
  } else {
    *first = {low, high};
    ranges_.erase(first + 1, last);
  }
}

Occupancy::Occupancy(const Problem& problem, const Ranks& ranks) : problem_(problem), ranks_(ranks) {
  cut_blocks();
  while (leaves_ < static_cast<Index>(blocks_.size())) leaves_ *= 2;
  tree_.resize(2 * static_cast<std::size_t>(leaves_));
}

void Occupancy::cut_blocks() {
  const Index instants = ranks_.count();
  std::vector<Index> ends(instants + 1);  // how many intervals start or stop at each rank
  for (const Span& span : ranks_.spans) {
    ++ends[span.start];
    ++ends[span.stop];
  }
  block_of_.resize(instants);
  Index weight = 0;
  for (Index r = 0; r < instants; ++r) {
    weight += ends[r];
    if (r == 0 || weight > kEndsPerBlock) {
      block_start_.push_back(r);
      weight = ends[r];
    }
    block_of_[r] = static_cast<Index>(block_start_.size()) - 1;
  }
  blocks_.resize(block_start_.size());
  block_start_.push_back(instants);
}

void Occupancy::insert(Index buffer, Bytes offset) {
  const Bytes size = problem_.size[buffer];
  if (size == 0) return;
  const Bytes high = checked_add(offset, size);
  for (Index k = problem_.first[buffer]; k < problem_.first[buffer + 1]; ++k) {
    insert_span(ranks_.spans[k], offset, high);
  }
}

void Occupancy::insert_span(const Span& span, Bytes low, Bytes high) {
  const Index from = block_of_[span.start];
  const Index to = block_of_[span.stop - 1];
  for (Index b = from; b <= to; ++b) {
    if (span.start <= block_start_[b] && block_start_[b + 1] <= span.stop) {
      blocks_[b].throughout.insert(low, high);
    } else {
      auto& partials = blocks_[b].partials;
      const auto at = std::upper_bound(partials.begin(), partials.end(), low,
                                       [](Bytes value, const Partial& p) { return value < p.low; });
      partials.insert(at, {low, high, span});
    }
  }
  for (Index l = leaves_ + from, r = leaves_ + to; l > 0; l /= 2, r /= 2) {
    for (Index node = l; node <= r; ++node) tree_[node].insert(low, high);
  }
}

void Occupancy::add_walker(const RangeSet& set, Bytes distance, Bytes size) {
  if (set.ranges().empty()) return;
  const auto* begin = set.ranges().data();
  walkers_.push_back({begin, begin + set.ranges().size(), nullptr, nullptr, {0, 0}, distance, size});
}

void Occupancy::add_walker(const std::vector<Partial>& partials, const Span& span, Bytes distance,
                           Bytes size) {
  if (partials.empty()) return;
  walkers_.push_back(
      {nullptr, nullptr, partials.data(), partials.data() + partials.size(), span, distance, size});
}

void Occupancy::add_walkers(const Span& span, Bytes distance, Bytes size) {
  Index from = block_of_[span.start];
  Index to = block_of_[span.stop - 1];
  const auto add_end = [&](Index b) {
    add_walker(blocks_[b].throughout, distance, size);
    add_walker(blocks_[b].partials, span, distance, size);
  };
  const bool whole_from = span.start <= block_start_[from];
  const bool whole_to = block_start_[to + 1] <= span.stop;
  if (from == to && !(whole_from && whole_to)) return add_end(from);
  if (!whole_from) add_end(from++);
  if (!whole_to) add_end(to--);
  for (Index l = leaves_ + from, r = leaves_ + to + 1; l < r; l /= 2, r /= 2) {
    if (l & 1) add_walker(tree_[l++], distance, size);
    if (r & 1) add_walker(tree_[--r], distance, size);
  }
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
                               [](Bytes value, const RangeSet::Range& r) { return value < r.high; });
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
  for (Block& block : blocks_) {
    block.throughout.clear();
    block.partials.clear();
  }
  for (RangeSet& set : tree_) set.clear();
}

}  // namespace lowtide
