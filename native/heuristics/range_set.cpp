#include "heuristics/range_set.hpp"

#include <algorithm>

namespace lowtide {
namespace {

constexpr std::size_t kShort = 512;  // a list that is not worth splitting

// Appends a range that starts no lower than any other so far.
void append(Ranges& ranges, Range range) {
  if (!ranges.empty() && range.low <= ranges.back().high) {
    ranges.back().high = std::max(ranges.back().high, range.high);
  } else {
    ranges.push_back(range);
  }
}

// Merges `news`, sorted by low end, into `ranges`.
void merge(Ranges& ranges, const Ranges& news) {
  Ranges merged;
  merged.reserve(ranges.size() + news.size());
  auto old = ranges.begin();
  for (const Range& range : news) {
    for (; old != ranges.end() && old->low < range.low; ++old) append(merged, *old);
    append(merged, range);
  }
  for (; old != ranges.end(); ++old) append(merged, *old);
  ranges = std::move(merged);
}

// Everything that touches the range melts into one.
void insert_into(Ranges& ranges, Range range) {
  auto first = std::lower_bound(ranges.begin(), ranges.end(), range.low,
                                [](const Range& r, Bytes low) { return r.high < low; });
  auto last = first;
  for (; last != ranges.end() && last->low <= range.high; ++last) {
    range.low = std::min(range.low, last->low);
    range.high = std::max(range.high, last->high);
  }
  if (first == last) {
    ranges.insert(first, range);
  } else {
    *first = range;
    ranges.erase(first + 1, last);
  }
}

}  // namespace

void RangeSet::insert(Range range) {
  insert_into(settled().size() < kShort ? settled() : recent(), range);
  settle_if_long();
}

void RangeSet::insert_all(Ranges& batch) {
  if (batch.size() < 4) {
    for (const Range& range : batch) insert(range);
    return;
  }
  std::sort(batch.begin(), batch.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
  merge(settled().size() < kShort ? settled() : recent(), batch);
  settle_if_long();
}

void RangeSet::settle_if_long() {
  const std::size_t length = recent().size();
  if (length < 64 || length * length < 16 * settled().size()) return;
  merge(settled(), recent());
  recent().clear();
}

void RangeSet::clear() {
  settled().clear();
  recent().clear();
}

}  // namespace lowtide
