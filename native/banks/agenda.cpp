#include "banks/agenda.hpp"

#include <algorithm>
#include <set>

namespace lowtide {

Agenda::Agenda(const Reduction& reduction) : r_(reduction) {
  const Index n = r_.count(), segments = r_.segments();
  first_.assign(n, -1);
  last_.assign(n, -1);
  weight_first_.assign(n, 0);
  weight_last_.assign(n, 0);
  slot_.assign(n, {});
  cuts_.assign(n, {});
  find_binding();
  std::vector<std::vector<Change>> changes(segments);
  std::vector<std::vector<Index>> decided(segments), forgotten(segments);
  for (const Index i : r_.open()) {
    place_item(i, changes);
    decided[first_[i]].push_back(i);
    forgotten[last_[i]].push_back(i);
  }
  for (Index s = 0; s < segments; ++s) {
    bool binds = false;
    for (Index b = 0; b < r_.banks(); ++b) binds |= r_.binds(b, s);
    if (!binds && changes[s].empty() && decided[s].empty() && forgotten[s].empty()) continue;
    moments_.push_back({s, std::move(changes[s]), std::move(decided[s]), std::move(forgotten[s]), binds});
  }
  order_cuts();
  assign_slots();
  split();
}

void Agenda::find_binding() {
  const Index segments = r_.segments();
  binding_from_.resize(static_cast<std::size_t>(r_.banks()) * segments);
  binding_until_.resize(binding_from_.size());
  for (Index b = 0; b < r_.banks(); ++b) {
    for (Index s = 0; s < segments; ++s) {
      const Index before = s == 0 ? -1 : binding_until_[r_.at(b, s - 1)];
      binding_until_[r_.at(b, s)] = r_.binds(b, s) ? s : before;
    }
    for (Index s = segments; s-- > 0;) {
      const Index after = s + 1 == segments ? segments : binding_from_[r_.at(b, s + 1)];
      binding_from_[r_.at(b, s)] = r_.binds(b, s) ? s : after;
    }
  }
}

// First and last segment at which the item matters, and how its weight changes in between.
void Agenda::place_item(Index i, std::vector<std::vector<Change>>& changes) {
  for (const Span* s = r_.begin(i); s != r_.end(i); ++s) {
    Index low = s->high, high = -1;
    for (Index b = 0; b < r_.banks(); ++b) {
      if (!r_.allowed(i, b)) continue;
      low = std::min(low, binding_from_[r_.at(b, s->low)]);
      high = std::max(high, binding_until_[r_.at(b, s->high - 1)]);
    }
    if (low >= s->high) continue;
    if (first_[i] < 0) {
      first_[i] = low;
      weight_first_[i] = s->weight;
    }
    last_[i] = high;
    weight_last_[i] = s->weight;
  }
  if (first_[i] < 0) {  // only a cut asks for it
    const Span* s = r_.begin(i);
    first_[i] = last_[i] = s == r_.end(i) ? 0 : s->low;
    weight_first_[i] = weight_last_[i] = 0;
    return;
  }
  for (const Span* s = r_.begin(i); s != r_.end(i); ++s) {
    if (s->low > first_[i] && s->low <= last_[i]) changes[s->low].push_back({i, s->weight});
    if (s->high > first_[i] && s->high <= last_[i]) changes[s->high].push_back({i, -s->weight});
  }
}

void Agenda::order_cuts() {
  const auto& cuts = r_.problem().cuts;
  std::vector<Index> turn(r_.count(), -1);
  Index next = 0;
  for (const Moment& moment : moments_) {
    for (const Index i : moment.decided) turn[i] = next++;
  }
  for (std::size_t c = 0; c < cuts.size(); ++c) {
    const auto earlier = [&](Index a, Index b) { return turn[a] < turn[b]; };
    const auto& items = cuts[c].items;
    cut_first_.push_back(*std::min_element(items.begin(), items.end(), earlier));
    cut_last_.push_back(*std::max_element(items.begin(), items.end(), earlier));
    for (const Index i : items) cuts_[i].push_back(static_cast<Index>(c));
  }
  cut_bit_.assign(cuts.size(), -1);
}

// Bits are used again once what they remembered is forgotten; cuts have bits of their own.
void Agenda::assign_slots() {
  Index width = 1;
  while ((Index{1} << width) < r_.banks()) ++width;
  Index used = static_cast<Index>(cut_bit_.size());
  for (Index c = 0; c < used; ++c) cut_bit_[c] = c;
  std::set<Index> free;
  for (const Moment& moment : moments_) {
    for (const Index i : moment.decided) {
      Index at = used;
      if (!free.empty()) {
        at = *free.begin();
        free.erase(free.begin());
      } else {
        if (used / 64 != (used + width - 1) / 64) used = (used / 64 + 1) * 64;  // within one word
        at = used;
        used += width;
      }
      slot_[i] = {at, width};
    }
    for (const Index i : moment.forgotten) free.insert(slot_[i].at);
  }
  words_ = std::max<Index>(1, (used + 63) / 64);
}

void Agenda::split() {
  Index remembered = 0;  // items and cuts
  std::size_t low = 0;
  for (std::size_t m = 0; m < moments_.size(); ++m) {
    for (const Index i : moments_[m].decided) {
      ++remembered;
      for (const Index c : cuts_[i]) remembered += (i == cut_first_[c] ? 1 : 0) - (i == cut_last_[c] ? 1 : 0);
    }
    remembered -= static_cast<Index>(moments_[m].forgotten.size());
    if (remembered > 0) continue;
    parts_.push_back({low, m + 1});
    low = m + 1;
  }
}

}  // namespace lowtide
