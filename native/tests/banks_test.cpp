// Banks: the choice against every choice there is; layouts that stay within a bank.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "banks/filling.hpp"
#include "banks/knapsack.hpp"
#include "banks/subset_sums.hpp"
#include "check/check.hpp"

namespace {

using namespace lowtide;

void add(BankProblem& problem, std::vector<Cost> costs, std::vector<Piece> pieces) {
  if (problem.first.empty()) problem.first.push_back(0);
  problem.cost.insert(problem.cost.end(), costs.begin(), costs.end());
  problem.pieces.insert(problem.pieces.end(), pieces.begin(), pieces.end());
  problem.first.push_back(static_cast<Index>(problem.pieces.size()));
}

BankProblem of(std::vector<Bytes> capacity) {
  BankProblem problem;
  problem.banks = static_cast<Index>(capacity.size());
  problem.capacity = std::move(capacity);
  problem.first = {0};
  return problem;
}

bool holds(const BankProblem& problem, const std::vector<Index>& bank) {
  for (const Piece& at : problem.pieces) {
    std::vector<Bytes> held(problem.capacity.size(), 0);
    for (Index i = 0; i < problem.count(); ++i) {
      for (Index k = problem.first[i]; k < problem.first[i + 1]; ++k) {
        const Piece& piece = problem.pieces[k];
        if (piece.start <= at.start && at.start < piece.stop) held[bank[i]] += piece.weight;
      }
    }
    for (std::size_t b = 0; b < held.size(); ++b) {
      if (held[b] > problem.capacity[b]) return false;
    }
  }
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.cost[i * problem.banks + bank[i]] == kForbidden) return false;
  }
  return std::none_of(problem.cuts.begin(), problem.cuts.end(), [&](const Cut& cut) {
    return std::all_of(cut.items.begin(), cut.items.end(), [&](Index i) { return bank[i] == cut.bank; });
  });
}

Cost cost_of(const BankProblem& problem, const std::vector<Index>& bank) {
  Cost sum = 0;
  for (Index i = 0; i < problem.count(); ++i) sum += problem.cost[i * problem.banks + bank[i]];
  return sum;
}

// The least cost of all choices; -1 if none holds.
Cost by_brute_force(const BankProblem& problem) {
  std::vector<Index> bank(problem.count(), 0);
  Cost best = -1;
  while (true) {
    if (holds(problem, bank)) {
      const Cost cost = cost_of(problem, bank);
      if (best < 0 || cost < best) best = cost;
    }
    Index i = 0;
    while (i < problem.count() && ++bank[i] == problem.banks) bank[i++] = 0;
    if (i == problem.count()) return best;
  }
}

BankProblem random_banks(std::mt19937& random) {
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  BankProblem problem = of({});
  problem.banks = 1 + below(3);
  for (Index b = 0; b < problem.banks; ++b) problem.capacity.push_back(3 + below(12));
  if (below(4) != 0) problem.capacity.back() = 60;
  const Index n = 1 + below(7);
  for (Index i = 0; i < n; ++i) {
    std::vector<Cost> costs;
    for (Index b = 0; b < problem.banks; ++b) costs.push_back(below(8) == 0 ? kForbidden : below(30));
    std::vector<Piece> pieces;
    Time at = below(6);
    for (int k = below(3); k >= 0; --k) {
      const Time stop = at + 1 + below(4);
      pieces.push_back({at, stop, 1 + below(6)});
      at = stop + below(3);
    }
    add(problem, costs, pieces);
  }
  if (below(3) == 0) {
    Cut cut{static_cast<Index>(below(problem.banks)), {}};
    for (Index i = 0; i < n; ++i) {
      if (below(2) == 0) cut.items.push_back(i);
    }
    if (!cut.items.empty()) problem.cuts.push_back(cut);
  }
  return problem;
}

TEST_CASE("a choice of banks equals brute force") {
  std::mt19937 random(7);
  int none = 0, some = 0;
  for (int turn = 0; turn < 600; ++turn) {
    const BankProblem problem = random_banks(random);
    const Cost best = by_brute_force(problem);
    const BankChoice found = choose_banks(problem, {});
    const std::string what = "problem " + std::to_string(turn);
    if (best < 0) {
      CHECK_MESSAGE(found.infeasible, what);
      ++none;
      continue;
    }
    ++some;
    CHECK_MESSAGE(!found.infeasible, what);
    REQUIRE_MESSAGE(found.bank.size() == static_cast<std::size_t>(problem.count()), what);
    CHECK_MESSAGE(holds(problem, found.bank), what);
    CHECK_MESSAGE(cost_of(problem, found.bank) == found.cost, what);
    CHECK_MESSAGE(found.cost == best, what);
    CHECK_MESSAGE(found.proved(), what);
  }
  CHECK(none > 20);
  CHECK(some > 300);
}

TEST_CASE("known choices") {
  const BankChoice nothing = choose_banks(of({4}), {});
  CHECK(nothing.bank.empty());
  CHECK(!nothing.infeasible);

  BankProblem pair = of({4, 100});
  add(pair, {1, 10}, {{0, 4, 3}});
  add(pair, {1, 12}, {{2, 6, 3}});
  const BankChoice found = choose_banks(pair, {});
  CHECK(found.bank == std::vector<Index>{1, 0});
  CHECK(found.cost == 11);
  CHECK(found.proved());

  pair.cuts.push_back({0, {1}});
  CHECK(choose_banks(pair, {}).cost == 13);
  pair.cuts.push_back({1, {0, 1}});
  CHECK(choose_banks(pair, {}).cost == 13);
  pair.cuts.push_back({0, {0}});
  CHECK(choose_banks(pair, {}).infeasible);
}

TEST_CASE("few states leave a bound that holds") {
  std::mt19937 random(11);
  BankProblem problem = of({200, 1 << 20});
  for (Index i = 0; i < 60; ++i) {
    const Bytes weight = 20 + static_cast<Bytes>(random() % 40);
    const Time start = static_cast<Time>(random() % 20);
    add(problem, {weight, 10 * weight + static_cast<Cost>(random() % 50)},
        {{start, start + 5 + static_cast<Time>(random() % 20), weight}});
  }
  const BankChoice whole = choose_banks(problem, {});
  REQUIRE(whole.proved());
  BankOptions few;
  few.states = 2'000;
  const BankChoice part = choose_banks(problem, few);
  CHECK(holds(problem, part.bank));
  CHECK(part.bound <= whole.cost);
  CHECK(part.cost >= whole.cost);
  std::atomic<bool> stop = true;
  BankOptions at_once;
  at_once.stop = &stop;
  const BankChoice none = choose_banks(problem, at_once);
  CHECK(none.bound <= whole.cost);
  CHECK((none.bank.empty() || holds(problem, none.bank)));
}

TEST_CASE("what weights can add up to") {
  std::int64_t work = 1'000;
  CHECK(reach_of({7, 5, 3}, 11, work).most == 10);
  CHECK(reach_of({7, 5, 3}, 14, work).most == 12);
  CHECK(reach_of({7, 5, 3}, 15, work).most == 15);
  work = 0;
  CHECK(reach_of({7, 5, 3}, 11, work).most >= 10);
}

TEST_CASE("a bank is filled within its capacity, and never worse with more rounds") {
  std::mt19937 random(3);
  for (int turn = 0; turn < 20; ++turn) {
    Problem problem;
    problem.first = {0};
    problem.capacity = 60 + static_cast<Bytes>(random() % 60);
    problem.reserved = static_cast<Bytes>(random() % 8);
    std::vector<Cost> gain;
    std::vector<std::uint8_t> chosen;
    for (Index i = 0; i < 80; ++i) {
      problem.size.push_back(static_cast<Bytes>(random() % 30));
      problem.alignment.push_back(1 + static_cast<Bytes>(random() % 4));
      problem.pin.push_back(kNone);
      const Time start = static_cast<Time>(random() % 40);
      problem.intervals.push_back({start, start + 1 + static_cast<Time>(random() % 12)});
      problem.first.push_back(static_cast<Index>(problem.intervals.size()));
      gain.push_back(1 + static_cast<Cost>(random() % 20));
      chosen.push_back(random() % 2);
    }
    // One that stays: it is in nobody's way before and may not be moved.
    problem.size[0] = 8;
    problem.alignment[0] = 1;
    gain[0] = kStays;
    std::vector<Bytes> offset(gain.size(), kNone);
    offset[0] = problem.reserved + 16;
    Cost before = 0;
    for (const std::int64_t rounds : {0, 10, 1000}) {
      const BankFill filled = fill_bank(problem, gain, chosen, offset, {rounds, 1, nullptr});
      CHECK(filled.rounds == rounds);
      CHECK(filled.offset[0] == problem.reserved + 16);
      CHECK(filled.gain >= before);
      before = filled.gain;
      Problem inside;
      inside.first = {0};
      inside.capacity = problem.capacity;
      inside.reserved = problem.reserved;
      std::vector<Bytes> at;
      Cost sum = 0;
      for (Index i = 0; i < problem.count(); ++i) {
        if (filled.offset[i] == kNone) continue;
        inside.size.push_back(problem.size[i]);
        inside.alignment.push_back(problem.alignment[i]);
        inside.pin.push_back(kNone);
        inside.intervals.push_back(problem.intervals[i]);
        inside.first.push_back(static_cast<Index>(inside.intervals.size()));
        at.push_back(filled.offset[i]);
        if (gain[i] != kStays) sum += gain[i];
      }
      CHECK(sum == filled.gain);
      CHECK(check(inside, at, 10).violations.empty());
    }
    CHECK(before > 0);
  }
}

}  // namespace
