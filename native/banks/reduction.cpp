#include "banks/reduction.hpp"

#include <algorithm>

namespace lowtide {

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

void Reduction::find_binding() {
  std::vector<Bytes> change(static_cast<std::size_t>(banks()) * (segments_ + 1), 0);
  for (Index i = 0; i < count(); ++i) {
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
  binding_before_.assign(static_cast<std::size_t>(banks()) * (segments_ + 1), 0);
  for (Index b = 0; b < banks(); ++b) {
    const std::size_t row = static_cast<std::size_t>(b) * (segments_ + 1);
    Bytes held = 0;
    for (Index s = 0; s < segments_; ++s) {
      held += change[row + s];
      binds_[at(b, s)] = held > problem_.capacity[b] ? 1 : 0;
      binding_before_[row + s + 1] = binding_before_[row + s] + binds_[at(b, s)];
    }
  }
}

bool Reduction::settle_free() {
  bool changed = false;
  for (Index i = 0; i < count(); ++i) {
    if (settled_[i] >= 0 || in_cut(i)) continue;
    Index best = -1;
    for (Index b = 0; b < banks(); ++b) {
      if (allowed(i, b) && (best < 0 || cost(i, b) < cost(i, best))) best = b;
    }
    const std::size_t row = static_cast<std::size_t>(best) * (segments_ + 1);
    const bool free = std::none_of(begin(i), end(i), [&](const Span& s) {
      return binding_before_[row + s.high] != binding_before_[row + s.low];
    });
    if (!free && (allowed_[i] & (allowed_[i] - 1)) != 0) continue;
    settled_[i] = best;
    allowed_[i] = 1U << best;
    changed = true;
  }
  return changed;
}

bool Reduction::find_room() {
  std::vector<Bytes> change(static_cast<std::size_t>(banks()) * (segments_ + 1), 0);
  open_.clear();
  for (Index i = 0; i < count(); ++i) {
    if (settled_[i] < 0) {
      open_.push_back(i);
      continue;
    }
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

bool Reduction::settle() {
  if (std::any_of(allowed_.begin(), allowed_.end(), [](std::uint32_t banks) { return banks == 0; })) {
    return false;
  }
  do {
    find_binding();
  } while (settle_free());
  return find_room();
}

}  // namespace lowtide
