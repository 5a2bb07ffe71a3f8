#include "heuristics/orders.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "problem/checked.hpp"
#include "problem/ranks.hpp"

namespace lowtide {
namespace {

using Key = __int128;  // size times duration needs it

Key duration(const Problem& p, Index i) {
  Key total = 0;
  for (Index k = p.first[i]; k < p.first[i + 1]; ++k) {
    total += static_cast<Key>(p.intervals[k].stop) - p.intervals[k].start;
  }
  return total;
}

Time start(const Problem& p, Index i) {
  return p.first[i] < p.first[i + 1] ? p.intervals[p.first[i]].start : 0;
}
Time stop(const Problem& p, Index i) {
  return p.first[i] < p.first[i + 1] ? p.intervals[p.first[i + 1] - 1].stop : 0;
}

// Duration, as the number of instants at which something starts: what does not depend on the clock.
std::vector<Key> starts_outlived(const Problem& p, const Ranks& ranks) {
  std::vector<Key> total(p.count());
  for (Index i = 0; i < p.count(); ++i) {
    for (Index k = p.first[i]; k < p.first[i + 1]; ++k)
      total[i] += ranks.spans[k].stop - ranks.spans[k].start;
  }
  return total;
}

// How many pairs of overlapping intervals each buffer has with others: those that start before its stop,
// less those that stop by its start.
std::vector<Key> conflict_degrees(const Problem& p) {
  std::vector<Time> starts, stops;
  for (const Interval& interval : p.intervals) {
    starts.push_back(interval.start);
    stops.push_back(interval.stop);
  }
  std::sort(starts.begin(), starts.end());
  std::sort(stops.begin(), stops.end());
  std::vector<Key> degree(p.count());
  for (Index i = 0; i < p.count(); ++i) {
    for (Index k = p.first[i]; k < p.first[i + 1]; ++k) {
      degree[i] += std::lower_bound(starts.begin(), starts.end(), p.intervals[k].stop) - starts.begin();
      degree[i] -= std::upper_bound(stops.begin(), stops.end(), p.intervals[k].start) - stops.begin();
    }
  }
  return degree;
}

// The most bytes that are live at any time during each buffer's life.
std::vector<Bytes> busiest_moments(const Problem& p, const Ranks& ranks) {
  std::size_t leaves = 1;
  while (leaves < static_cast<std::size_t>(ranks.count())) leaves *= 2;
  std::vector<Key> change(leaves + 1);
  for (Index i = 0; i < p.count(); ++i) {
    for (Index k = p.first[i]; k < p.first[i + 1]; ++k) {
      change[ranks.spans[k].start] += p.size[i];
      change[ranks.spans[k].stop] -= p.size[i];
    }
  }
  std::vector<Bytes> tree(2 * leaves);  // maxima over ranges of ranks
  Key live = 0;
  for (std::size_t r = 0; r < leaves; ++r) {
    live += change[r];
    if (live > kMaxBytes) throw_overflow();
    tree[leaves + r] = static_cast<Bytes>(live);
  }
  for (std::size_t node = leaves - 1; node > 0; --node)
    tree[node] = std::max(tree[2 * node], tree[2 * node + 1]);

  std::vector<Bytes> peak(p.count());
  for (Index i = 0; i < p.count(); ++i) {
    for (Index k = p.first[i]; k < p.first[i + 1]; ++k) {
      std::size_t l = leaves + ranks.spans[k].start;
      std::size_t r = leaves + ranks.spans[k].stop;
      for (; l < r; l /= 2, r /= 2) {
        if (l & 1) peak[i] = std::max(peak[i], tree[l++]);
        if (r & 1) peak[i] = std::max(peak[i], tree[--r]);
      }
    }
  }
  return peak;
}

// By the busiest moment of each buffer's life, then by another key, not negative, of which 63 bits count.
std::vector<Key> behind_peak(const Problem& p, const Ranks& ranks, std::vector<Key> key) {
  const std::vector<Bytes> peak = busiest_moments(p, ranks);
  Key largest = 0;
  for (const Key k : key) largest = std::max(largest, k);
  int excess = 0;
  while (largest >> excess > kMaxBytes) ++excess;
  for (Index i = 0; i < p.count(); ++i) key[i] = (Key{peak[i]} << 63) + (key[i] >> excess);
  return key;
}

template <class KeyOf>
std::vector<Key> keys(const Problem& p, KeyOf&& key_of) {
  std::vector<Key> result(p.count());
  for (Index i = 0; i < p.count(); ++i) result[i] = key_of(i);
  return result;
}

// Larger keys come first.
std::vector<Key> keys_by_name(const Problem& p, const Ranks& ranks, std::string_view name) {
  if (name == "given") return keys(p, [](Index i) { return -Key{i}; });
  if (name == "size") return keys(p, [&](Index i) { return Key{p.size[i]}; });
  if (name == "duration") return keys(p, [&](Index i) { return duration(p, i); });
  if (name == "area") return keys(p, [&](Index i) { return duration(p, i) * p.size[i]; });
  if (name == "start") return keys(p, [&](Index i) { return -Key{start(p, i)}; });
  if (name == "stop") return keys(p, [&](Index i) { return Key{stop(p, i)}; });
  if (name == "conflicts") return conflict_degrees(p);
  if (name == "conflicts-size") {
    std::vector<Key> key = conflict_degrees(p);
    for (Index i = 0; i < p.count(); ++i) key[i] *= p.size[i];
    return key;
  }
  if (name == "peak") return behind_peak(p, ranks, starts_outlived(p, ranks));
  if (name == "peak-size") return behind_peak(p, ranks, keys(p, [&](Index i) { return Key{p.size[i]}; }));
  if (name == "peak-area")
    return behind_peak(p, ranks, keys(p, [&](Index i) { return duration(p, i) * p.size[i]; }));
  if (name == "peak-conflicts") return behind_peak(p, ranks, conflict_degrees(p));
  throw std::invalid_argument("no order is called '" + std::string(name) + "'");
}

}  // namespace

std::vector<std::string_view> order_names() {
  return {"given",     "size",           "duration", "area",      "start",     "stop",
          "conflicts", "conflicts-size", "peak",     "peak-size", "peak-area", "peak-conflicts"};
}

std::vector<Index> order_by(const Problem& p, const Ranks& ranks, std::string_view name) {
  const std::vector<Key> key = keys_by_name(p, ranks, name);
  const std::vector<Key> length = starts_outlived(p, ranks);
  std::vector<Index> order(p.count());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](Index a, Index b) {
    if (key[a] != key[b]) return key[a] > key[b];
    if (p.size[a] != p.size[b]) return p.size[a] > p.size[b];
    if (length[a] != length[b]) return length[a] > length[b];
    if (start(p, a) != start(p, b)) return start(p, a) < start(p, b);
    return a < b;
  });
  return order;
}

std::vector<Index> order_by(const Problem& p, std::string_view name) { return order_by(p, Ranks(p), name); }

void require_permutation(const std::vector<Index>& order, Index n) {
  bool good = static_cast<Index>(order.size()) == n;
  std::vector<bool> seen(n);
  for (std::size_t k = 0; good && k < order.size(); ++k) {
    good = order[k] >= 0 && order[k] < n && !seen[order[k]];
    if (good) seen[order[k]] = true;
  }
  if (!good) throw std::invalid_argument("the order is not a permutation of the buffers");
}

}  // namespace lowtide
