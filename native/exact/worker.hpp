// One thread's share of the exact search: its searches, their memories and its random choices.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "exact/bands.hpp"
#include "exact/canonical.hpp"
#include "exact/parts.hpp"

namespace lowtide {

// One run of a search, cut off after so many nodes.
struct Task {
  Index part = 0;
  Bytes arena = 0;          // the ceiling to fit under
  std::int64_t nodes = 0;   // the budget
  std::int64_t turn = 0;    // counts the runs of its kind on this part; varies the order
  bool modest = false;      // not for the goal itself
  bool calm = false;        // without noise
  Index window_begin = -1;  // sections of the part's instance to look at alone, if >= 0
  Index window_end = -1;
};

struct Report {
  Outcome outcome = Outcome::kStopped;
  std::int64_t nodes = 0;
  std::vector<Bytes> bases;  // of the part's units, if the whole part was packed
};

class Worker {
 public:
  Worker(const Parts& parts, const RuleSet& rules, std::uint64_t seed);

  // The same tasks in the same order give the same reports, unless `stop` intervenes.
  Report run(const Task& task, const std::atomic<bool>& stop);

 private:
  struct Solver {
    std::unique_ptr<CanonicalSearch> canonical;
    std::unique_ptr<BandSearch> bands;
    std::vector<std::vector<double>> keys;  // one list for each static order
  };

  Solver& solver(Index part, bool modest);
  Report run_window(const Task& task, const std::atomic<bool>& stop);
  std::vector<Index> order(const Solver& solver, const Task& task, const std::vector<double>& weights);
  double noise();

  const Parts& parts_;
  const RuleSet rules_;
  std::uint64_t random_;
  DeadEnds dead_ends_;
  // What is in the way of one target is not what is in the way of another, so each kind learns for itself.
  std::map<std::pair<Index, bool>, Solver> solvers_;
};

}  // namespace lowtide
