#include "exact/canonical.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace lowtide {
namespace {

constexpr Bytes kFar = std::numeric_limits<Bytes>::max();

Bytes round_to(Bytes value, Bytes alignment) {
  return alignment == 1 ? value : (value + alignment - 1) / alignment * alignment;
}

}  // namespace

CanonicalSearch::CanonicalSearch(const Instance& instance, const RuleSet& rules)
    : instance_(instance), size_(instance.size), rules_(rules) {
  const Index n = instance.count(), m = instance.section_count();
  bound_.resize(n);
  latest_.resize(n);
  rank_.resize(n);
  slot_.resize(instance.sections.entries.size());
  unplaced_.resize(m);
  top_.resize(m);
  crossing_.resize(m + 1);
  queued_.resize(m);
  conflicts_.resize(m);
}

void CanonicalSearch::forget(double factor) {
  for (double& count : conflicts_) count *= factor;
}

void CanonicalSearch::reset(Bytes arena, const std::vector<Index>& order) {
  const Index n = instance_.count(), m = instance_.section_count();
  arena_ = arena;
  ceiling_ = 0;
  order_ = order;
  for (Index k = 0; k < n; ++k) rank_[order[k]] = k;
  for (Index j = 0; j < n; ++j) {
    latest_[j] = instance_.latest(j, arena);
    ceiling_ = std::max(ceiling_, latest_[j] + size_[j]);
    bound_[j] = instance_.lowest[j];
  }
  placed_.assign(n, 0);
  trail_.clear();
  queue_.clear();
  std::fill(queued_.begin(), queued_.end(), 0);
  std::fill(top_.begin(), top_.end(), 0);
  std::fill(unplaced_.begin(), unplaced_.end(), 0);
  std::fill(crossing_.begin(), crossing_.end(), 0);
  live_ = instance_.live.entries;
  live_count_.resize(m);
  std::vector<Index> next(instance_.sections.first.begin(), instance_.sections.first.end() - 1);
  for (Index s = 0; s < m; ++s) {
    const Index first = instance_.live.first[s];
    live_count_[s] = instance_.live.first[s + 1] - first;
    for (Index k = 0; k < live_count_[s]; ++k) {
      slot_[next[live_[first + k]]++] = k;
      unplaced_[s] += size_[live_[first + k]];
    }
  }
  for (Index j = 0; j < n; ++j) {
    const auto sections = instance_.sections[j];
    for (Index s = sections.front() + 1; s <= sections.back(); ++s) ++crossing_[s];
  }
}

Outcome CanonicalSearch::run(Bytes arena, const std::vector<Index>& order, std::int64_t node_limit,
                             const std::atomic<bool>& stop, DeadEnds& dead_ends, std::uint64_t salt) {
  reset(arena, order);
  nodes_ = 0;
  node_limit_ = node_limit;
  stop_ = &stop;
  dead_ends_ = &dead_ends;
  salt_ = salt;
  for (Index j = 0; j < instance_.count(); ++j) {
    if (bound_[j] > latest_[j]) return Outcome::kInfeasible;
    if (rules_.has(Rule::kTwins) && instance_.next_twin[j] >= 0) {
      if (!raise(instance_.next_twin[j], bound_[j] + size_[j])) return Outcome::kInfeasible;
    }
  }
  for (Index s = 0; s < instance_.section_count(); ++s) touch(s);
  if (!propagate()) return Outcome::kInfeasible;
  return solve_rest(0, instance_.count(), -1);
}

// Packs order_[begin, end), which nothing else unplaced overlaps. Unless found, bounds are as before.
Outcome CanonicalSearch::solve(Index begin, Index end) {
  if (begin == end) return Outcome::kFound;
  const std::size_t before = trail_.size();
  const bool remember = rules_.has(Rule::kMemo) && end - begin > 2;
  StateHash state{salt_, salt_};
  Index at = pick(begin, end, remember ? &state : nullptr);
  if (remember && dead_ends_->contains(state, arena_)) return Outcome::kInfeasible;
  for (;;) {
    if (++nodes_ > node_limit_ || stop_->load(std::memory_order_relaxed)) return Outcome::kStopped;
    const Index j = order_[at];
    const std::size_t mark = trail_.size();
    if (place(j)) {
      std::rotate(order_.begin() + begin, order_.begin() + at, order_.begin() + at + 1);
      const Outcome outcome = solve_rest(begin + 1, end, j);
      if (outcome != Outcome::kInfeasible) return outcome;
      std::rotate(order_.begin() + begin, order_.begin() + begin + 1, order_.begin() + at + 1);
    }
    undo(mark);
    if (!postpone(j)) break;
    at = pick(begin, end, nullptr);
  }
  undo(before);
  if (remember) dead_ends_->insert(state, arena_);
  return Outcome::kInfeasible;
}

// What is left of a part after `placed` was put (-1: the whole, at the start): its pieces one by one.
Outcome CanonicalSearch::solve_rest(Index begin, Index end, Index placed) {
  Index from = 1, to = instance_.section_count() - 1;
  if (placed >= 0) {
    from = std::max(from, instance_.sections[placed].front());
    to = std::min(to, instance_.sections[placed].back() + 1);
  }
  bool cut = false;
  for (Index s = from; s <= to && !cut; ++s) cut = crossing_[s] == 0;
  if (!cut || !rules_.has(Rule::kDecomposition)) return solve(begin, end);

  const auto by_start = [&](Index a, Index b) {
    return instance_.sections[a].front() < instance_.sections[b].front();
  };
  const auto by_rank = [&](Index a, Index b) { return rank_[a] < rank_[b]; };
  std::sort(order_.begin() + begin, order_.begin() + end, by_start);
  std::vector<std::pair<Index, Index>> pieces;
  Index reach = -1;
  for (Index k = begin; k < end; ++k) {
    const auto sections = instance_.sections[order_[k]];
    if (sections.front() > reach) pieces.push_back({k, k});
    reach = std::max(reach, sections.back());
    pieces.back().second = k + 1;
  }
  for (const auto& [b, e] : pieces) std::sort(order_.begin() + b, order_.begin() + e, by_rank);
  // The smallest first: it is the quickest to fail.
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const auto& a, const auto& b) { return a.second - a.first < b.second - b.first; });
  Outcome outcome = Outcome::kFound;
  for (const auto& [b, e] : pieces) {
    outcome = solve(b, e);
    if (outcome != Outcome::kFound) break;
  }
  if (outcome == Outcome::kInfeasible) std::sort(order_.begin() + begin, order_.begin() + end, by_rank);
  return outcome;
}

// Position in order_ of the buffer of least bound, the first in order among equals.
Index CanonicalSearch::pick(Index begin, Index end, StateHash* state) const {
  Index best = begin;
  for (Index k = begin; k < end; ++k) {
    const Index j = order_[k];
    if (bound_[j] < bound_[order_[best]]) best = k;
    if (state) state->add(static_cast<std::uint64_t>(j), static_cast<std::uint64_t>(bound_[j]));
  }
  return best;
}

// Fixes j at its bound; false if that is a dead end.
bool CanonicalSearch::place(Index j) {
  const Bytes top = bound_[j] + size_[j];
  placed_[j] = 1;
  trail_.push_back({Change::kPlaced, j, 0});
  const auto sections = instance_.sections[j];
  const Index* const slots = slot_.data() + instance_.sections.first[j];
  for (std::size_t k = 0; k < sections.size(); ++k) {
    const Index s = sections[k];
    Index* const live = live_.data() + instance_.live.first[s];
    const Index last = --live_count_[s];
    const Index moved = live[last];
    live[slots[k]] = moved;
    live[last] = j;
    // The slot of `moved` in this section: its row is sorted by section.
    const auto row = instance_.sections[moved];
    const auto at = std::lower_bound(row.begin(), row.end(), s) - row.begin();
    slot_[instance_.sections.first[moved] + at] = slots[k];
    slot_[instance_.sections.first[j] + static_cast<Index>(k)] = last;
    unplaced_[s] -= size_[j];
    trail_.push_back({Change::kTop, s, std::exchange(top_[s], top)});
    touch(s);
  }
  for (Index s = sections.front() + 1; s <= sections.back(); ++s) --crossing_[s];
  for (const Index k : instance_.neighbours[j]) {
    if (bound_[k] < top && !placed_[k] && !raise(k, top)) return false;
  }
  return propagate();
}

// Raises j above its bound; false if that is a dead end.
bool CanonicalSearch::postpone(Index j) {
  Bytes support = kFar;
  for (const Index k : instance_.neighbours[j]) {
    if (!placed_[k]) support = std::min(support, bound_[k] + size_[k]);
  }
  const Bytes step = bound_[j] + instance_.alignment[j];
  if (support == kFar) {
    if (rules_.has(Rule::kDominance)) return false;
    support = step;
  } else if (!rules_.has(Rule::kCanonical)) {
    support = step;
  }
  return raise(j, support) && propagate();
}

bool CanonicalSearch::raise(Index j, Bytes bound) {
  if (bound <= bound_[j]) return true;
  trail_.push_back({Change::kBound, j, bound_[j]});
  bound_[j] = round_to(bound, instance_.alignment[j]);
  if (bound_[j] > latest_[j]) return false;
  for (const Index s : instance_.sections[j]) touch(s);
  const Index twin = instance_.next_twin[j];
  if (twin < 0 || !rules_.has(Rule::kTwins)) return true;
  return raise(twin, bound_[j] + size_[j]);
}

void CanonicalSearch::touch(Index section) {
  if (std::exchange(queued_[section], 1) == 0) queue_.push_back(section);
}

bool CanonicalSearch::propagate() {
  bool alive = true;
  for (std::size_t k = 0; k < queue_.size(); ++k) {
    queued_[queue_[k]] = 0;
    if (alive) alive = propagate_section(queue_[k]);
  }
  queue_.clear();
  return alive;
}

bool CanonicalSearch::propagate_section(Index s) {
  const Index count = live_count_[s];
  if (count == 0) return true;
  const Index* const live = live_.data() + instance_.live.first[s];
  // Whoever has a higher bound cannot be the lowest of the section.
  const Bytes last_first = ceiling_ - unplaced_[s];
  Bytes lowest_top = kFar;   // of those that can
  Bytes lowest_late = kFar;  // least bound of those that cannot
  for (Index k = 0; k < count; ++k) {
    const Bytes bound = bound_[live[k]];
    if (bound <= last_first) {
      lowest_top = std::min(lowest_top, bound + size_[live[k]]);
    } else {
      lowest_late = std::min(lowest_late, bound);
    }
  }
  if (rules_.has(Rule::kSectionFloor)) {
    const bool fits = rules_.has(Rule::kRaisedFloor) ? lowest_top != kFar : top_[s] <= last_first;
    if (!fits) {
      conflicts_[s] += 1;
      return false;
    }
  }
  if (!rules_.has(Rule::kNotFirst) || lowest_top == kFar || lowest_late >= lowest_top) return true;
  for (Index k = 0; k < count; ++k) {
    const Index j = live[k];
    if (bound_[j] > last_first && bound_[j] < lowest_top && !raise(j, lowest_top)) return false;
  }
  return true;
}

void CanonicalSearch::undo(std::size_t mark) {
  for (const Index s : queue_) queued_[s] = 0;
  queue_.clear();
  while (trail_.size() > mark) {
    const Change change = trail_.back();
    trail_.pop_back();
    if (change.kind == Change::kBound) {
      bound_[change.index] = change.before;
    } else if (change.kind == Change::kTop) {
      top_[change.index] = change.before;
    } else {
      const Index j = change.index;
      placed_[j] = 0;
      const auto sections = instance_.sections[j];
      // It stands just behind the unplaced ones, as everything placed after it has been undone.
      for (const Index s : sections) {
        ++live_count_[s];
        unplaced_[s] += size_[j];
      }
      for (Index s = sections.front() + 1; s <= sections.back(); ++s) ++crossing_[s];
    }
  }
}

}  // namespace lowtide
