#include "exact/bands.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "problem/checked.hpp"

namespace lowtide {
namespace {

constexpr Bytes kFree = std::numeric_limits<Bytes>::max();

// a + b, kept within the range of Bytes; whatever is so large is out of every bound.
Bytes saturated(Bytes a, Bytes b) {
  Bytes sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? kFree : -kFree;
}

Bytes round_down(Bytes value, Bytes step, Bytes phase) {
  Bytes excess = (value - phase) % step;
  if (excess < 0) excess += step;
  return value - excess;
}

}  // namespace

BandSearch::BandSearch(const Problem& problem, const Units& units, const std::vector<Index>& members,
                       const RuleSet& rules)
    : problem_(problem), units_(units), members_(members), rules_(rules) {
  const std::size_t n = members_.size();
  pairs_of_.resize(n);
  sections_of_.resize(n);
  rank_.resize(n);
  low_.resize(n);
  high_.resize(n);
  above_.resize(n);
  below_.resize(n);
  low_reason_.resize(n);
  high_reason_.resize(n);
  pushes_.resize(n);
  queued_.resize(n);
  is_changed_.resize(n);
  link();
}

// Sweeps over time: at each start, whoever is alive conflicts with whoever else is.
void BandSearch::link() {
  struct Start {
    Time time;
    Index buffer;
    Time stop;
  };
  std::vector<Start> starts;
  std::vector<Home> home(problem_.count());
  for (Index k = 0; k < static_cast<Index>(members_.size()); ++k) {
    for (const Member& member : units_.members(units_[members_[k]])) {
      const Index i = member.buffer;
      if (problem_.size[i] == 0) continue;
      home[i] = {k, member.distance};
      for (Index t = problem_.first[i]; t < problem_.first[i + 1]; ++t) {
        starts.push_back({problem_.intervals[t].start, i, problem_.intervals[t].stop});
      }
    }
  }
  std::sort(starts.begin(), starts.end(), [](const Start& a, const Start& b) {
    return a.time != b.time ? a.time < b.time : a.buffer < b.buffer;
  });

  const Sharing sharing(problem_);
  std::vector<std::pair<Index, Index>> together;
  std::vector<Start> live;
  std::vector<Index> alive;
  for (std::size_t at = 0; at < starts.size(); ++at) {
    const Start& now = starts[at];
    std::erase_if(live, [&](const Start& s) { return s.stop <= now.time; });
    for (const Start& other : live) together.push_back(std::minmax(now.buffer, other.buffer));
    live.push_back(now);
    if (at + 1 < starts.size() && starts[at + 1].time == now.time) continue;
    alive.clear();
    for (const Start& s : live) alive.push_back(s.buffer);
    add_section(sharing.disjoint(alive), home);
  }
  std::sort(together.begin(), together.end());
  together.erase(std::unique(together.begin(), together.end()), together.end());
  link_pairs(together, home, sharing);
}

void BandSearch::add_section(const std::vector<Index>& buffers, const std::vector<Home>& home) {
  const Index index = static_cast<Index>(sections_.size());
  auto& section = sections_.emplace_back();
  for (const Index i : buffers) {
    section.push_back({home[i].unit, home[i].distance, problem_.size[i]});
    auto& mine = sections_of_[home[i].unit];
    if (mine.empty() || mine.back() != index) mine.push_back(index);
  }
}

void BandSearch::link_pairs(const std::vector<std::pair<Index, Index>>& together,
                            const std::vector<Home>& home, const Sharing& sharing) {
  struct Gap {
    Index u, v;
    Band band;
  };
  std::vector<Gap> gaps;
  for (auto [a, b] : together) {
    if (sharing.nested(a, b)) continue;
    if (home[a].unit > home[b].unit) std::swap(a, b);
    const auto [u, da] = home[a];
    const auto [v, db] = home[b];
    // They share a byte if base(u) - base(v) is strictly between these.
    const Bytes low = db - da - problem_.size[a], high = db + problem_.size[b] - da;
    const bool over = sharing.may_coincide(a, b);
    if (u == v) {
      possible_ = possible_ && (low >= 0 || high <= 0 || (over && da == db));
    } else if (over) {
      if (low + 1 < db - da) gaps.push_back({u, v, {low + 1, db - da - 1}});
      if (db - da + 1 < high) gaps.push_back({u, v, {db - da + 1, high - 1}});
    } else {
      gaps.push_back({u, v, {low + 1, high - 1}});
    }
  }
  std::sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) {
    return std::tuple(a.u, a.v, a.band.low, a.band.high) < std::tuple(b.u, b.v, b.band.low, b.band.high);
  });
  std::vector<Band> forbidden;
  for (std::size_t k = 0; k < gaps.size(); ++k) {
    forbidden.push_back(gaps[k].band);
    if (k + 1 < gaps.size() && gaps[k + 1].u == gaps[k].u && gaps[k + 1].v == gaps[k].v) continue;
    add_pair(gaps[k].u, gaps[k].v, forbidden);
    forbidden.clear();
  }
  decided_.resize(pairs_.size());
}

// The bands are what the forbidden intervals, in ascending order, leave.
void BandSearch::add_pair(Index u, Index v, const std::vector<Band>& forbidden) {
  const Index first = static_cast<Index>(bands_.size());
  Bytes from = -kFree;
  for (const Band& gap : forbidden) {
    if (gap.low > from) bands_.push_back({from, gap.low - 1});
    from = std::max(from, gap.high + 1);
  }
  bands_.push_back({from, kFree});
  const Index index = static_cast<Index>(pairs_.size());
  pairs_.push_back({u, v, first, static_cast<Index>(bands_.size())});
  pairs_of_[u].push_back(index);
  pairs_of_[v].push_back(index);
}

Outcome BandSearch::run(Bytes arena, const std::vector<Index>& order, std::int64_t node_limit,
                        const std::atomic<bool>& stop) {
  nodes_ = 0;
  node_limit_ = node_limit;
  stop_ = &stop;
  for (std::size_t k = 0; k < order.size(); ++k) rank_[order[k]] = static_cast<Index>(k);
  return possible_ && start(arena) ? solve() : Outcome::kInfeasible;
}

bool BandSearch::start(Bytes arena) {
  arena_ = arena;
  trail_.clear();
  queue_.clear();
  changed_.clear();
  std::fill(queued_.begin(), queued_.end(), 0);
  std::fill(is_changed_.begin(), is_changed_.end(), 0);
  std::fill(decided_.begin(), decided_.end(), 0);
  std::fill(low_reason_.begin(), low_reason_.end(), Reason{});
  std::fill(high_reason_.begin(), high_reason_.end(), Reason{});
  for (Index k = 0; k < static_cast<Index>(members_.size()); ++k) {
    above_[k].clear();
    below_[k].clear();
    const Unit& unit = units_[members_[k]];
    Bytes low = 0, high = kFree;
    for (const Member& member : units_.members(unit)) {
      const Bytes size = problem_.size[member.buffer];
      if (size > 0) low = std::max(low, problem_.reserved - member.distance);
      high = std::min(high, arena - member.distance - size);
    }
    if (unit.pinned != kNone) {
      if (unit.pinned < low || unit.pinned > high) return false;
      low = high = unit.pinned;
    }
    if (high < low) return false;
    low_[k] = round_up(low, unit.step, unit.phase);
    high_[k] = round_down(high, unit.step, unit.phase);
    if (high_[k] < low_[k]) return false;
    touch(k);
  }
  return propagate();
}

Outcome BandSearch::solve() {
  if (++nodes_ > node_limit_ || stop_->load(std::memory_order_relaxed)) return Outcome::kStopped;
  const Index pair = pick();
  if (pair < 0) return Outcome::kFound;
  for (const Index band : bands_to_try(pairs_[pair])) {
    const std::size_t mark = trail_.size();
    if (decide(pair, band) && propagate()) {
      const Outcome outcome = solve();
      if (outcome != Outcome::kInfeasible) return outcome;
    }
    undo(mark);
  }
  return Outcome::kInfeasible;
}

// A pair whose units overlap at their least bases: the lowest such, then the first in order; -1 if there is
// none.
Index BandSearch::pick() const {
  Index best = -1;
  std::pair<Bytes, Index> best_key{};
  for (Index p = 0; p < static_cast<Index>(pairs_.size()); ++p) {
    const Pair& pair = pairs_[p];
    if (decided_[p] || satisfied(pair)) continue;
    const std::pair key(std::max(low_[pair.u], low_[pair.v]), std::min(rank_[pair.u], rank_[pair.v]));
    if (best < 0 || key < best_key) {
      best = p;
      best_key = key;
    }
  }
  return best;
}

bool BandSearch::satisfied(const Pair& pair) const {
  const Bytes difference = low_[pair.u] - low_[pair.v];
  for (Index b = pair.first; b < pair.last; ++b) {
    if (difference >= bands_[b].low && difference <= bands_[b].high) return true;
  }
  return false;
}

bool BandSearch::feasible(const Pair& pair, const Band& band) const {
  return high_[pair.u] - low_[pair.v] >= band.low && low_[pair.u] - high_[pair.v] <= band.high;
}

// The nearest band that keeps the earlier of the two where it is comes first.
std::vector<Index> BandSearch::bands_to_try(const Pair& pair) const {
  std::vector<Index> up, down;  // u rises, or v does
  const Bytes difference = low_[pair.u] - low_[pair.v];
  for (Index b = pair.first; b < pair.last; ++b) {
    if (feasible(pair, bands_[b])) (bands_[b].low > difference ? up : down).push_back(b);
  }
  std::reverse(down.begin(), down.end());
  if (rank_[pair.u] < rank_[pair.v]) std::swap(up, down);
  up.insert(up.end(), down.begin(), down.end());
  return up;
}

bool BandSearch::decide(Index p, Index b) {
  const Pair& pair = pairs_[p];
  const Band& band = bands_[b];
  decided_[p] = 1;
  trail_.push_back({Change::kDecided, p, 0, {}});
  if (band.low != -kFree) {
    connect(pair.v, pair.u, band.low);
    if (!raise(pair.u, saturated(low_[pair.v], band.low), {pair.v, band.low})) return false;
    if (!lower(pair.v, saturated(high_[pair.u], -band.low), {pair.u, band.low})) return false;
  }
  if (band.high != kFree) {
    connect(pair.u, pair.v, -band.high);
    if (!raise(pair.v, saturated(low_[pair.u], -band.high), {pair.u, -band.high})) return false;
    if (!lower(pair.u, saturated(high_[pair.v], band.high), {pair.v, -band.high})) return false;
  }
  return true;
}

void BandSearch::connect(Index from, Index to, Bytes distance) {
  above_[from].push_back({to, distance});
  below_[to].push_back({from, distance});
  trail_.push_back({Change::kEdge, from, to, {}});
}

bool BandSearch::raise(Index u, Bytes low, Reason reason) {
  if (low <= low_[u]) return true;
  if (low > high_[u]) return false;
  const Unit& unit = units_[members_[u]];
  low = saturated(low, round_down(low, unit.step, unit.phase) == low ? 0 : unit.step);
  low = round_down(low, unit.step, unit.phase);
  if (low > high_[u]) return false;
  trail_.push_back({Change::kLow, u, low_[u], low_reason_[u]});
  low_[u] = low;
  low_reason_[u] = reason;
  touch(u);
  return ++pushes_[u] < 8 || !grows(u, low_reason_);
}

bool BandSearch::lower(Index u, Bytes high, Reason reason) {
  if (high >= high_[u]) return true;
  if (high < low_[u]) return false;
  high = round_down(high, units_[members_[u]].step, units_[members_[u]].phase);
  if (high < low_[u]) return false;
  trail_.push_back({Change::kHigh, u, high_[u], high_reason_[u]});
  high_[u] = high;
  high_reason_[u] = reason;
  touch(u);
  return ++pushes_[u] < 8 || !grows(u, high_reason_);
}

// Whether u pushes itself round a circle of positive length: then its bound would move for ever. (A circle
// that only the rounding to alignment turns may come to rest, and is left to do so.)
bool BandSearch::grows(Index u, const std::vector<Reason>& reasons) const {
  Bytes length = 0;
  Index at = u;
  for (std::size_t steps = 0; steps <= reasons.size(); ++steps) {
    length = saturated(length, reasons[at].distance);
    at = reasons[at].unit;
    if (at < 0) return false;
    if (at == u) return length > 0;
  }
  return false;
}

void BandSearch::touch(Index u) {
  if (std::exchange(queued_[u], 1) == 0) queue_.push_back(u);
  if (std::exchange(is_changed_[u], 1) == 0) changed_.push_back(u);
}

// Moves bounds until nothing pushes any more, then looks at the sections and pairs of what has moved.
bool BandSearch::propagate() {
  std::fill(pushes_.begin(), pushes_.end(), 0);
  while (!changed_.empty()) {
    if (!push_bounds()) return false;
    const std::vector<Index> changed = std::exchange(changed_, {});
    for (const Index u : changed) is_changed_[u] = 0;
    for (const Index u : changed) {
      if (rules_.has(Rule::kSectionFloor)) {
        for (const Index s : sections_of_[u]) {
          if (!section_fits(s)) return false;
        }
      }
      if (rules_.has(Rule::kForcedBand) && !force_bands(u)) return false;
    }
  }
  return true;
}

bool BandSearch::push_bounds() {
  for (std::size_t k = 0; k < queue_.size(); ++k) {
    if (k % 1024 == 1023 && stop_->load(std::memory_order_relaxed)) break;
    const Index u = queue_[k];
    queued_[u] = 0;
    for (const Edge& edge : above_[u]) {
      if (!raise(edge.to, saturated(low_[u], edge.distance), {u, edge.distance})) return false;
    }
    for (const Edge& edge : below_[u]) {
      if (!lower(edge.to, saturated(high_[u], -edge.distance), {u, edge.distance})) return false;
    }
  }
  for (const Index u : queue_) queued_[u] = 0;
  queue_.clear();
  return true;
}

bool BandSearch::force_bands(Index u) {
  for (const Index p : pairs_of_[u]) {
    if (decided_[p]) continue;
    Index only = -1, count = 0;
    for (Index b = pairs_[p].first; b < pairs_[p].last; ++b) {
      if (!feasible(pairs_[p], bands_[b])) continue;
      only = b;
      ++count;
    }
    if (count == 0 || (count == 1 && !decide(p, only))) return false;
  }
  return true;
}

// No two pieces share a byte. Taken in order of least offset, each ends no earlier than the sum says; and
// downwards from the top alike.
bool BandSearch::section_fits(Index section) const {
  std::vector<std::pair<Bytes, Bytes>> lows, highs;
  for (const Piece& piece : sections_[section]) {
    lows.emplace_back(low_[piece.unit] + piece.distance, piece.size);
    highs.emplace_back(high_[piece.unit] + piece.distance + piece.size, piece.size);
  }
  std::sort(lows.begin(), lows.end());
  Bytes top = 0;
  for (const auto& [low, size] : lows) top = saturated(std::max(top, low), size);
  if (top > arena_) return false;
  std::sort(highs.begin(), highs.end(), std::greater<>());
  Bytes bottom = arena_;
  for (const auto& [high, size] : highs) bottom = std::min(bottom, high) - size;
  return bottom >= problem_.reserved;
}

void BandSearch::undo(std::size_t mark) {
  for (const Index u : queue_) queued_[u] = 0;
  for (const Index u : changed_) is_changed_[u] = 0;
  queue_.clear();
  changed_.clear();
  while (trail_.size() > mark) {
    const Change change = trail_.back();
    trail_.pop_back();
    switch (change.kind) {
      case Change::kLow:
        low_[change.index] = change.before;
        low_reason_[change.index] = change.reason;
        break;
      case Change::kHigh:
        high_[change.index] = change.before;
        high_reason_[change.index] = change.reason;
        break;
      case Change::kDecided:
        decided_[change.index] = 0;
        break;
      case Change::kEdge:
        above_[change.index].pop_back();
        below_[static_cast<Index>(change.before)].pop_back();
        break;
    }
  }
}

}  // namespace lowtide
