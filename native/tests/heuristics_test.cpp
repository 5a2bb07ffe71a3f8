// Heuristics, bounds, verifier and shared objects against quadratic reference code, on random problems with
// every feature in the mix; meant to run under AddressSanitizer and UBSan.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <random>

#include "check/check.hpp"
#include "heuristics/order_packer.hpp"
#include "heuristics/orders.hpp"
#include "heuristics/range_set.hpp"
#include "heuristics/squeaky_wheel.hpp"
#include "objects/shared_objects.hpp"
#include "problem/live_peak.hpp"

using namespace lowtide;

namespace {

constexpr Bytes kHuge = std::numeric_limits<Bytes>::max();
using Random = std::mt19937_64;

Bytes below(Random& random, Bytes n) { return static_cast<Bytes>(random() % static_cast<std::uint64_t>(n)); }

void add_buffer(Problem& p, Bytes size, std::vector<Interval> life, Bytes alignment = 1) {
  if (p.first.empty()) p.first.push_back(0);
  p.size.push_back(size);
  p.alignment.push_back(alignment);
  p.pin.push_back(kNone);
  p.intervals.insert(p.intervals.end(), life.begin(), life.end());
  p.first.push_back(static_cast<Index>(p.intervals.size()));
}

Problem random_problem(Random& random, Index n, Time horizon, bool features) {
  Problem p;
  for (Index i = 0; i < n; ++i) {
    std::vector<Interval> life;
    const int pieces = features ? 1 + static_cast<int>(below(random, 3)) : 1;
    Time at = below(random, horizon);
    for (int k = 0; k < pieces; ++k) {
      const Time stop = at + 1 + below(random, below(random, 4) == 0 ? horizon : 8);
      life.push_back({at, stop});
      at = stop + 1 + below(random, 5);
    }
    const Bytes alignment = features ? Bytes{1} << below(random, 5) : 1;
    add_buffer(p, features && below(random, 10) == 0 ? 0 : 1 + below(random, 100), life, alignment);
  }
  if (!features || n < 8) return p;
  p.reserved = below(random, 20);
  p.size[1] = p.size[0];
  p.alignment[1] = p.alignment[0];
  p.coincide = {{0, 1}};
  p.size[3] = 8;  // buffer 3 lies 32 bytes above the bottom of buffer 4, inside it
  p.size[4] = 64;
  p.alignment[3] = p.alignment[4] = 8;
  p.placements = {{3, 4, 32}};
  return p;
}

// Whether two buffers may not share bytes, by looking at all pairs of intervals.
bool conflict(const Problem& p, Index a, Index b) {
  for (Index x = p.first[a]; x < p.first[a + 1]; ++x) {
    for (Index y = p.first[b]; y < p.first[b + 1]; ++y) {
      if (std::max(p.intervals[x].start, p.intervals[y].start) <
          std::min(p.intervals[x].stop, p.intervals[y].stop)) {
        return true;
      }
    }
  }
  return false;
}

bool share_bytes(const Problem& p, const std::vector<Bytes>& at, Index a, Index b) {
  return p.size[a] > 0 && p.size[b] > 0 && at[a] < at[b] + p.size[b] && at[b] < at[a] + p.size[a];
}

bool permitted(const Problem& p, const std::vector<Bytes>& at, Index a, Index b) {
  for (const auto& [x, y] : p.coincide) {
    if (((x == a && y == b) || (x == b && y == a)) && at[a] == at[b]) return true;
  }
  for (const Placement& place : p.placements) {
    if ((place.inner == a && place.outer == b) || (place.inner == b && place.outer == a)) return true;
  }
  return false;
}

bool legal(const Problem& p, const Packing& packing) {
  const std::vector<Bytes>& at = packing.offset;
  if (static_cast<Index>(at.size()) != p.count()) return false;
  Bytes arena = p.reserved;
  for (Index i = 0; i < p.count(); ++i) {
    // A buffer of no bytes is in nobody's way, not even the reserved bytes'.
    if (p.size[i] > 0 && at[i] < p.reserved) return false;
    if (at[i] < 0 || at[i] % p.alignment[i] != 0) return false;
    if (p.pin[i] != kNone && at[i] != p.pin[i]) return false;
    if (p.size[i] > 0) arena = std::max(arena, at[i] + p.size[i]);
    for (Index j = 0; j < i; ++j) {
      if (conflict(p, i, j) && share_bytes(p, at, i, j) && !permitted(p, at, i, j)) return false;
    }
  }
  for (const Placement& place : p.placements) {
    if (at[place.inner] != at[place.outer] + place.distance) return false;
  }
  return arena == packing.arena;
}

TEST_CASE("packings are legal") {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const bool features = round % 2 == 0;
    const Index n = 1 + static_cast<Index>(below(random, round % 10 == 0 ? 400 : 40));
    const Problem p = random_problem(random, n, 1 + below(random, 200), features);
    for (const std::string_view name : order_names()) {
      const std::vector<Index> order = order_by(p, name);
      for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
        const Packing packing = pack_in_order(p, order, fit);
        REQUIRE(legal(p, packing));
        const CheckResult verdict = check(p, packing.offset, 10);
        REQUIRE((verdict.violations.empty() && verdict.reuse_pairs.has_value()));
      }
    }
  }
}

// First fit, literally: the lowest offset that is free.
TEST_CASE("first fit is lowest") {
  Random random(2);
  for (int round = 0; round < 60; ++round) {
    const Index n = 1 + static_cast<Index>(below(random, 200));
    const Problem p = random_problem(random, n, 150, false);
    const std::vector<Index> order = order_by(p, "size");
    const Packing packing = pack_in_order(p, order, Fit::kFirst);
    std::vector<Index> placed;
    for (const Index i : order) {
      std::vector<Bytes> candidates{0};
      for (const Index j : placed) {
        if (conflict(p, i, j)) candidates.push_back(packing.offset[j] + p.size[j]);
      }
      std::sort(candidates.begin(), candidates.end());
      const auto free = [&](Bytes at) {
        return std::none_of(placed.begin(), placed.end(), [&](Index j) {
          return conflict(p, i, j) && at < packing.offset[j] + p.size[j] &&
                 packing.offset[j] < at + p.size[i];
        });
      };
      REQUIRE(*std::find_if(candidates.begin(), candidates.end(), free) == packing.offset[i]);
      placed.push_back(i);
    }
  }
}

TEST_CASE("range sets are unions") {
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    RangeSet set;
    std::vector<bool> taken(20000);
    for (int k = 0; k < 80; ++k) {
      Ranges batch;
      for (Bytes size = 1 + below(random, 40); size > 0; --size) {
        const Bytes low = below(random, 19990);
        batch.push_back({low, low + 1 + below(random, 4)});
        for (Bytes b = low; b < batch.back().high; ++b) taken[b] = true;
      }
      if (batch.size() == 1) {
        set.insert(batch[0]);
      } else {
        set.insert_all(batch);
      }
    }
    std::vector<bool> covered(taken.size());
    for (const Ranges& layer : set.layers()) {
      Bytes end = -1;
      for (const Range& range : layer) {
        REQUIRE(range.low > end);  // disjoint, ascending, not even touching
        end = range.high;
        for (Bytes b = range.low; b < range.high; ++b) covered[b] = true;
      }
    }
    REQUIRE(covered == taken);
  }
}

TEST_CASE("check agrees with all pairs") {
  Random random(4);
  for (int round = 0; round < 300; ++round) {
    const Problem p = random_problem(random, 8 + static_cast<Index>(below(random, 30)), 60, round % 2 == 0);
    std::vector<Bytes> at(p.count());
    for (Bytes& offset : at) offset = below(random, 400);
    std::vector<std::pair<Index, Index>> expected, found;
    std::int64_t reuse = 0;
    for (Index i = 0; i < p.count(); ++i) {
      for (Index j = i + 1; j < p.count(); ++j) {
        if (!share_bytes(p, at, i, j)) continue;
        if (!conflict(p, i, j)) ++reuse;
        if (conflict(p, i, j) && !permitted(p, at, i, j)) expected.emplace_back(i, j);
      }
    }
    const CheckResult verdict = check(p, at, 1'000'000);
    for (const Violation& v : verdict.violations) {
      if (v.kind == Violation::Kind::kOverlap) found.emplace_back(v.i, v.j);
    }
    std::sort(found.begin(), found.end());
    REQUIRE(found == expected);
    REQUIRE(verdict.reuse_pairs == reuse);
    if (!verdict.violations.empty()) {
      const CheckResult few = check(p, at, verdict.violations.size() - 1);
      REQUIRE((few.truncated && few.violations.size() == verdict.violations.size() - 1));
    }
  }
}

ImproveOptions rounds(std::int64_t max_rounds, int threads, const std::atomic<bool>& stop) {
  ImproveOptions options;
  options.max_rounds = max_rounds;
  options.threads = threads;
  options.seed = 7;
  options.stop = &stop;
  return options;
}

TEST_CASE("improvement is deterministic") {
  Random random(5);
  std::atomic<bool> stop = false;
  for (int round = 0; round < 8; ++round) {
    const Problem p = random_problem(random, 150, 100, round % 2 == 0);
    ImproveOptions options = rounds(20, 1, stop);
    const Improvement one = improve(p, options);
    options.threads = 3;
    const Improvement three = improve(p, options);
    REQUIRE((legal(p, one.packing) && one.rounds == 20));
    REQUIRE(one.packing.offset == three.packing.offset);
    options.incumbent = &one.packing.offset;
    REQUIRE(improve(p, options).packing.arena <= one.packing.arena);
  }
}

TEST_CASE("stopping still gives a packing") {
  Random random(6);
  const std::atomic<bool> stop = true;
  const Problem p = random_problem(random, 50, 100, true);
  REQUIRE(legal(p, improve(p, rounds(100, 2, stop)).packing));
  Problem empty;
  empty.first = {0};
  REQUIRE(improve(empty, rounds(3, 2, stop)).packing.arena == 0);
}

TEST_CASE("sums never wrap") {
  Problem p;
  for (int k = 0; k < 3; ++k) add_buffer(p, kHuge / 2, {{k, k + 1}});
  REQUIRE(live_peak(p) == kHuge / 2);
  REQUIRE(pack_in_order(p, {0, 1, 2}, Fit::kFirst).arena == kHuge / 2);
  for (Interval& interval : p.intervals) interval = {0, 1};
  CHECK_THROWS_AS(static_cast<void>(live_peak(p)), std::overflow_error);
  CHECK_THROWS_AS(static_cast<void>(pack_in_order(p, {0, 1, 2}, Fit::kFirst)), std::overflow_error);
  CHECK_THROWS_AS(static_cast<void>(pack_in_order(p, {0, 1, 2}, Fit::kBest)), std::overflow_error);
  CHECK_THROWS_AS(static_cast<void>(object_lower_bound(p)), std::overflow_error);
  const CheckResult verdict = check(p, {0, kHuge / 2, kHuge - 5}, 10);
  REQUIRE(verdict.violations.size() == 2);  // one overlap, one that ends past 2^63 - 1
  Problem aligned;
  add_buffer(aligned, kHuge - 10, {{0, 2}});
  add_buffer(aligned, 1, {{0, 2}}, Bytes{1} << 40);
  CHECK_THROWS_AS(static_cast<void>(pack_in_order(aligned, {0, 1}, Fit::kFirst)), std::overflow_error);
}

TEST_CASE("contradictions are refused") {
  Problem p;
  for (int k = 0; k < 3; ++k) add_buffer(p, 64, {{0, 4}}, 16);
  p.placements = {{1, 0, 8}};  // both must be multiples of 16
  CHECK_THROWS_AS(static_cast<void>(pack_in_order(p, {0, 1, 2}, Fit::kFirst)), std::invalid_argument);
  p.placements = {{1, 0, 16}, {2, 1, 16}, {2, 0, 48}};
  CHECK_THROWS_AS(static_cast<void>(pack_in_order(p, {0, 1, 2}, Fit::kFirst)), std::invalid_argument);
  p.placements = {{1, 0, 16}};
  p.pin = {32, 32, kNone};
  CHECK_THROWS_AS(static_cast<void>(pack_in_order(p, {0, 1, 2}, Fit::kFirst)), std::invalid_argument);
  p.pin = {kNone, 40, kNone};  // a multiple of 8 only
  CHECK_THROWS_AS(static_cast<void>(pack_in_order(p, {0, 1, 2}, Fit::kFirst)), std::invalid_argument);
  p.pin = {kNone, 48, kNone};
  const Packing packing = pack_in_order(p, {2, 1, 0}, Fit::kFirst);
  REQUIRE((packing.offset[0] == 32 && packing.offset[1] == 48 && packing.offset[2] == 112));
  CHECK_THROWS_AS(static_cast<void>(pack_in_order(p, {0, 0, 1}, Fit::kFirst)), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(order_by(p, "beauty")), std::invalid_argument);
}

TEST_CASE("objects are legal and bounded") {
  Random random(7);
  const std::atomic<bool> stop = false;
  for (int round = 0; round < 60; ++round) {
    const Problem p = random_problem(random, 1 + static_cast<Index>(below(random, 30)), 40, false);
    const ObjectAssignment best = assign_objects(p, 200'000, 1, stop);
    std::vector<Bytes> size(best.size.size());
    for (Index i = 0; i < p.count(); ++i) {
      size[best.object[i]] = std::max(size[best.object[i]], p.size[i]);
      for (Index j = 0; j < i; ++j) REQUIRE((best.object[i] != best.object[j] || !conflict(p, i, j)));
    }
    Bytes total = 0;
    for (const Bytes s : size) total += s;
    REQUIRE((size == best.size && total == best.total && best.lower_bound <= total));
    REQUIRE(best.total <= assign_objects_in_order(p, order_by(p, "size"), ObjectChoice::kClosest).total);
  }
}

}  // namespace
