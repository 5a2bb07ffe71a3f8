// Runs one task on each worker at a time, while the calling thread watches the clock.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "exact/worker.hpp"

namespace lowtide {

class Crew {
 public:
  Crew(const Parts& parts, const RuleSet& rules, std::uint64_t seed, int threads);

  int size() const { return static_cast<int>(workers_.size()); }

  // Runs tasks[w] on worker w and waits for all. `poll` is called from this thread every few milliseconds;
  // once it returns true, all runs are told to stop. When the report of worker w satisfies `decisive`, later
  // workers are told to stop: their reports would not be looked at.
  std::vector<Report> run(const std::vector<Task>& tasks, const std::function<bool()>& poll,
                          const std::function<bool(const Report&)>& decisive);

 private:
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace lowtide
