// Exact, anytime packing: the smallest arena with a proof, or a fit under a capacity, or proof that none is.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "exact/rules.hpp"
#include "problem/problem.hpp"

namespace lowtide {

struct SearchProgress {
  double seconds;
  Bytes arena;  // kNone until there is a packing
  Bytes lower_bound;
  std::int64_t nodes;
};

struct SearchOptions {
  bool fit = false;             // stop at the first packing within the problem's capacity
  double deadline = 0;          // seconds; 0 for none
  std::int64_t node_limit = 0;  // over all threads; 0 for none
  int threads = 1;              // 0 for one a processor
  std::uint64_t seed = 0;
  std::vector<Bytes> incumbent;  // offsets to start from, or empty; ignored where they are wrong
  RuleSet rules;
  std::function<void(const SearchProgress&)> progress;  // called now and then from the calling thread
  std::function<bool()> interrupted;                    // asked now and then from the calling thread
};

enum class Stopped { kOptimal, kFit, kInfeasible, kDeadline, kNodes, kInterrupted, kExhausted };

struct SearchResult {
  std::vector<Bytes> offset;  // empty if no packing was found
  Bytes arena = kNone;
  Bytes lower_bound = 0;  // no packing is smaller
  Stopped stopped = Stopped::kExhausted;
  std::int64_t nodes = 0;
  std::int64_t rounds = 0;
  std::vector<SearchProgress> history;  // each change of arena or bound
};

// Deterministic for given options, as long as neither the deadline nor an interruption cuts it short. The
// capacity matters in fit mode only. kExhausted: what is left is too large for exact search.
// Throws std::invalid_argument for contradictory groups or a missing capacity, std::overflow_error for sums
// past 2^63 - 1.
SearchResult search(const Problem& problem, const SearchOptions& options);

}  // namespace lowtide
