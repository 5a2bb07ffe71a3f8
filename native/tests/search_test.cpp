// The exact search: known answers, every rule switched off in turn, features of the problem, limits.
#include "exact/search.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <stdexcept>
#include <string>

#include "check/check.hpp"
#include "problem/live_peak.hpp"

namespace {

using namespace lowtide;

void add(Problem& problem, Bytes size, std::vector<Interval> life, Bytes alignment = 1, Bytes pin = kNone) {
  if (problem.first.empty()) problem.first.push_back(0);
  problem.size.push_back(size);
  problem.alignment.push_back(alignment);
  problem.pin.push_back(pin);
  problem.intervals.insert(problem.intervals.end(), life.begin(), life.end());
  problem.first.push_back(static_cast<Index>(problem.intervals.size()));
}

void expect_optimal(const Problem& problem, Bytes arena, const std::string& what,
                    const SearchOptions& options = {}) {
  const SearchResult result = search(problem, options);
  CHECK_MESSAGE((result.stopped == Stopped::kOptimal), (what + ": not proved"));
  CHECK_MESSAGE(result.arena == arena, (what + ": arena"));
  CHECK_MESSAGE(result.lower_bound == arena, (what + ": bound"));
  CHECK_MESSAGE((check(problem, result.offset, 10).violations.empty()), (what + ": wrong packing"));
}

// Every instant but the last has 22 live bytes, yet nothing below 23 will do.
Problem above_its_peak() {
  Problem problem;
  const std::vector<std::pair<Bytes, Interval>> buffers = {
      {3, {0, 4}},  {3, {4, 5}}, {8, {5, 6}},  {3, {2, 6}},  {5, {5, 7}},
      {7, {1, 3}},  {8, {0, 3}}, {3, {3, 7}},  {1, {2, 7}},  {2, {4, 6}},
      {11, {0, 1}}, {4, {1, 2}}, {12, {3, 4}}, {10, {4, 5}}, {13, {6, 7}}};
  for (const auto& [size, life] : buffers) add(problem, size, {life});
  return problem;
}

Problem random_problem(std::mt19937& random, Index n, bool with_features) {
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  Problem problem;
  for (Index i = 0; i < n; ++i) {
    std::vector<Interval> life;
    Time at = below(6);
    for (int k = below(3); k >= 0; --k) {
      const Time stop = at + 1 + below(4);
      life.push_back({at, stop});
      at = stop + 1 + below(3);
    }
    const Bytes alignment = with_features && below(3) == 0 ? 1 + below(4) : 1;
    const Bytes pin = with_features && below(8) == 0 ? alignment * below(4) : kNone;
    add(problem, with_features ? below(7) : 1 + below(6), life, alignment, pin);
  }
  if (!with_features) return problem;
  problem.reserved = below(3);
  for (Index i = 1; i < n; ++i) {
    const Index j = below(i);
    if (problem.size[i] == problem.size[j] && below(2) == 0) problem.coincide.push_back({i, j});
    if (problem.size[i] < problem.size[j] && below(4) == 0) {
      problem.placements.push_back({i, j, below(static_cast<int>(problem.size[j] - problem.size[i]) + 1)});
    }
  }
  return problem;
}

TEST_CASE("known answers") {
  Problem nothing;
  nothing.first = {0};
  expect_optimal(nothing, 0, "nothing to place");
  Problem one;
  add(one, 5, {{0, 3}}, 4);
  expect_optimal(one, 5, "one buffer, aligned");
  one.reserved = 6;
  expect_optimal(one, 13, "one buffer above a reserved prefix, aligned");
  Problem pair;
  add(pair, 5, {{0, 3}}, 4);
  add(pair, 6, {{2, 4}}, 4);
  expect_optimal(pair, 13, "alignment decides which of two is on top");
  Problem hole;
  add(hole, 4, {{0, 1}, {2, 3}});
  add(hole, 4, {{1, 2}});
  expect_optimal(hole, 4, "a buffer in the hole of another's life");
}

TEST_CASE("features") {
  Problem pinned;
  add(pinned, 2, {{0, 4}}, 1, 3);
  add(pinned, 3, {{0, 2}});
  add(pinned, 4, {{2, 4}});
  expect_optimal(pinned, 9, "pin: one fits beneath, the other only above");
  pinned.capacity = 8;
  SearchOptions fit;
  fit.fit = true;
  CHECK_MESSAGE((search(pinned, fit).stopped == Stopped::kInfeasible),
                "no fit where the optimum is above the capacity");
  add(pinned, 1, {{0, 1}}, 1, 4);
  CHECK_MESSAGE((search(pinned, {}).stopped == Stopped::kInfeasible), "two pins in conflict");

  Problem twins;
  add(twins, 4, {{0, 3}});
  add(twins, 4, {{2, 5}});
  twins.coincide = {{0, 1}};
  expect_optimal(twins, 4, "two buffers that may coincide");
  add(twins, 2, {{2, 3}});
  expect_optimal(twins, 6, "they and a third");

  Problem nested;
  add(nested, 6, {{0, 4}});
  add(nested, 2, {{2, 7}});
  add(nested, 4, {{5, 7}});
  nested.placements = {{1, 0, 4}};
  expect_optimal(nested, 6, "a buffer inside another, outliving it, with a third beneath");
  nested.placements = {{1, 0, 2}};
  expect_optimal(nested, 8, "the same in the middle: the third goes above");
}

TEST_CASE("rules change nothing") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    const Problem problem = random_problem(random, 4 + trial % 4, trial % 2 == 0);
    SearchResult reference;
    try {
      reference = search(problem, {});
    } catch (const std::invalid_argument&) {
      continue;
    }
    const bool packed = reference.stopped == Stopped::kOptimal;
    CHECK_MESSAGE((packed || reference.stopped == Stopped::kInfeasible),
                  ("trial " + std::to_string(trial) + " decided"));
    for (const RuleInfo& info : all_rules()) {
      SearchOptions options;
      options.rules.remove(info.name);
      const SearchResult result = search(problem, options);
      const std::string what = "trial " + std::to_string(trial) + " without " + std::string(info.name);
      CHECK_MESSAGE((result.stopped == reference.stopped), (what + ": another verdict"));
      CHECK_MESSAGE(result.arena == reference.arena, what);
      if (!packed) continue;
      CHECK_MESSAGE((check(problem, result.offset, 1).violations.empty()), (what + ": wrong packing"));
      Problem tight = problem;
      tight.capacity = reference.arena - 1;
      options.fit = true;
      if (tight.capacity >= tight.reserved) {
        CHECK_MESSAGE((search(tight, options).stopped == Stopped::kInfeasible),
                      (what + ": fits below the optimum"));
      }
    }
  }
}

TEST_CASE("bound above peak") {
  const Problem problem = above_its_peak();
  CHECK_MESSAGE(live_peak(problem) == 22, "the live peak");
  expect_optimal(problem, 23, "an optimum above the live peak");
  for (const RuleInfo& info : all_rules()) {
    SearchOptions options;
    options.rules.remove(info.name);
    expect_optimal(problem, 23, "the same without " + std::string(info.name), options);
  }
}

TEST_CASE("deterministic") {
  std::mt19937 random(3);
  const Problem problem = random_problem(random, 60, false);
  SearchOptions options;
  options.threads = 2;
  options.seed = 5;
  options.node_limit = 20'000;
  const SearchResult first = search(problem, options), second = search(problem, options);
  CHECK_MESSAGE((first.offset == second.offset && first.nodes == second.nodes),
                "same seed and threads, same answer");
  CHECK_MESSAGE((check(problem, first.offset, 1).violations.empty()), "and a right one");
}

TEST_CASE("limits") {
  std::mt19937 random(11);
  Problem problem = random_problem(random, 80, false);
  SearchOptions options;
  options.interrupted = [] { return true; };
  const SearchResult stopped = search(problem, options);
  CHECK_MESSAGE((stopped.stopped == Stopped::kInterrupted || stopped.stopped == Stopped::kOptimal),
                "interrupted at once");
  options = {};
  options.incumbent.assign(problem.size.size(), 0);
  options.node_limit = 1000;
  CHECK_MESSAGE((check(problem, search(problem, options).offset, 1).violations.empty()),
                "a wrong incumbent does no harm");
  options.fit = true;
  CHECK_THROWS_AS(static_cast<void>(search(problem, options)),
                  std::invalid_argument);  // a fit needs a capacity
  CHECK_THROWS_AS(static_cast<void>(SearchOptions().rules.remove("no such rule")),
                  std::invalid_argument);  // unknown rule

  constexpr Bytes kHuge = std::numeric_limits<Bytes>::max() / 2;
  Problem huge;
  add(huge, kHuge, {{0, 2}});
  add(huge, kHuge, {{1, 3}});
  expect_optimal(huge, 2 * kHuge, "two buffers of nearly 2^62 bytes each");
  add(huge, kHuge, {{1, 3}});
  CHECK_THROWS_AS(static_cast<void>(search(huge, {})), std::overflow_error);  // three of them are refused
}

}  // namespace
