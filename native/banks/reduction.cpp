#include "banks/reduction.hpp"

#include <algorithm>
#include <set>

#include "banks/subset_sums.hpp"

namespace lowtide {
namespace {

constexpr std::size_t kMostAlive = 200;  // items at a segment whose sums are looked at

struct Alive {
  Bytes weight;
  Index item;
};

}  // namespace

Reduction::Reduction(const BankProblem& problem) : problem_(problem) {
  const Index n = count();
  cut_time();
  allowed_.assign(n, 0);
  settled_.assign(n, -1);
  in_cut_.assign(n, 0);
  for (Index i = 0; i < n; ++i) {
    for (Index b = 0; b < banks(); ++b) {
      const bool fits =
          std::all_of(begin(i), end(i), [&](const Span& s) { return s.weight <= problem.capacity[b]; });
      if (fits && problem.cost[cell(i, b)] != kForbidden) allowed_[i] |= 1U << b;
    }
  }
  for (const Cut& cut : problem.cuts) {
    for (const Index i : cut.items) in_cut_[i] = 1;
  }
}

// A start is left out if nothing ends until the next one, at which then no less is held.
void Reduction::cut_time() {
  std::vector<Time> starts, stops;
  for (const Piece& piece : problem_.pieces) {
    starts.push_back(piece.start);
    stops.push_back(piece.stop);
  }
  std::sort(starts.begin(), starts.end());
  std::sort(stops.begin(), stops.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  std::vector<Time> kept;
  for (std::size_t k = 0; k < starts.size(); ++k) {
    const auto stop = std::upper_bound(stops.begin(), stops.end(), starts[k]);
    const bool ends = stop != stops.end() && (k + 1 == starts.size() || *stop <= starts[k + 1]);
    if (ends) kept.push_back(starts[k]);
  }
  segments_ = static_cast<Index>(kept.size());
  const auto index = [&](Time t) {
    return static_cast<Index>(std::lower_bound(kept.begin(), kept.end(), t) - kept.begin());
  };
  first_.push_back(0);
  for (Index i = 0; i < count(); ++i) {
    for (Index k = problem_.first[i]; k < problem_.first[i + 1]; ++k) {
      const Piece& piece = problem_.pieces[k];
      spans_.push_back({index(piece.start), index(piece.stop), piece.weight});
    }
    first_.push_back(static_cast<Index>(spans_.size()));
  }
}

void Reduction::list_open() {
  open_.clear();
  for (Index i = 0; i < count(); ++i) {
    if (settled_[i] < 0) open_.push_back(i);
  }
}

// False if settled items alone are too much for a bank.
bool Reduction::find_room() {
  std::vector<Bytes> change(static_cast<std::size_t>(banks()) * (segments_ + 1), 0);
  for (Index i = 0; i < count(); ++i) {
    if (settled_[i] < 0) continue;
    const std::size_t row = static_cast<std::size_t>(settled_[i]) * (segments_ + 1);
    for (const Span* s = begin(i); s != end(i); ++s) {
      change[row + s->low] += s->weight;
      change[row + s->high] -= s->weight;
    }
  }
  room_.assign(static_cast<std::size_t>(banks()) * segments_, 0);
  for (Index b = 0; b < banks(); ++b) {
    Bytes held = 0;
    for (Index s = 0; s < segments_; ++s) {
      held += change[static_cast<std::size_t>(b) * (segments_ + 1) + s];
      room_[at(b, s)] = problem_.capacity[b] - held;
      if (held > problem_.capacity[b]) return false;
    }
  }
  return true;
}

void Reduction::find_binding() {
  std::vector<Bytes> change(static_cast<std::size_t>(banks()) * (segments_ + 1), 0);
  for (const Index i : open_) {
    for (Index b = 0; b < banks(); ++b) {
      if (!allowed(i, b)) continue;
      const std::size_t row = static_cast<std::size_t>(b) * (segments_ + 1);
      for (const Span* s = begin(i); s != end(i); ++s) {
        change[row + s->low] += s->weight;
        change[row + s->high] -= s->weight;
      }
    }
  }
  binds_.assign(static_cast<std::size_t>(banks()) * segments_, 0);
  for (Index b = 0; b < banks(); ++b) {
    Bytes held = 0;
    for (Index s = 0; s < segments_; ++s) {
      held += change[static_cast<std::size_t>(b) * (segments_ + 1) + s];
      binds_[at(b, s)] = held > room(b, s) ? 1 : 0;
    }
  }
}

void Reduction::find_mattering() {
  matters_.assign(static_cast<std::size_t>(count()) * banks(), 0);
  for (Index b = 0; b < banks(); ++b) find_mattering_in(b);
}

// Also lowers the room of segments to what can be reached.
void Reduction::find_mattering_in(Index b) {
  struct Event {
    Index segment;
    Index item;
    Bytes weight;
    bool begins;
  };
  std::vector<Event> events;
  for (const Index i : open_) {
    for (const Span* s = begin(i); s != end(i) && allowed(i, b); ++s) {
      events.push_back({s->low, i, s->weight, true});
      events.push_back({s->high, i, s->weight, false});
    }
  }
  const auto earlier = [](const Event& x, const Event& y) { return x.segment < y.segment; };
  std::stable_sort(events.begin(), events.end(), earlier);
  const auto heavier = [](const Alive& x, const Alive& y) {
    return x.weight != y.weight ? x.weight > y.weight : x.item < y.item;
  };
  std::set<Alive, decltype(heavier)> alive(heavier);
  std::vector<Bytes> weights;
  std::size_t next = 0;
  for (Index s = 0; s < segments_; ++s) {
    for (; next < events.size() && events[next].segment == s; ++next) {
      const Alive one{events[next].weight, events[next].item};
      if (events[next].begins) {
        alive.insert(one);
      } else {
        alive.erase(one);
      }
    }
    if (!binds(b, s)) continue;
    Reach reach{room(b, s), alive.size()};
    if (alive.size() <= kMostAlive && work_ > 0) {
      weights.clear();
      for (const Alive& one : alive) weights.push_back(one.weight);
      reach = reach_of(weights, room(b, s), work_);
    }
    room_[at(b, s)] = reach.most;
    std::size_t turn = 0;
    for (const Alive& one : alive) {
      if (turn++ >= reach.bound) break;
      matters_[cell(one.item, b)] = 1;
    }
  }
}

// Whether any item was settled.
bool Reduction::settle_free() {
  bool changed = false;
  for (const Index i : open_) {
    if (in_cut(i)) continue;
    Index best = -1;
    for (Index b = 0; b < banks(); ++b) {
      if (allowed(i, b) && (best < 0 || cost(i, b) < cost(i, best))) best = b;
    }
    const bool only = (allowed_[i] & (allowed_[i] - 1)) == 0;
    if (!only && matters_[cell(i, best)] != 0) continue;
    settled_[i] = best;
    allowed_[i] = 1U << best;
    changed = true;
  }
  return changed;
}

bool Reduction::settle() {
  if (std::any_of(allowed_.begin(), allowed_.end(), [](std::uint32_t banks) { return banks == 0; })) {
    return false;
  }
  do {
    list_open();
    if (!find_room()) return false;
    find_binding();
    find_mattering();
  } while (settle_free());
  return true;
}

}  // namespace lowtide
