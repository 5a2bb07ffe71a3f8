// Finding a better order by looking at what went wrong with the last one.
//
// "Squeaky wheel" optimisation (Joslin and Clements, 1999): pack in some order, blame the buffers that end
// above the target, move them forward in the order, and pack again. Each step costs one near-linear pass.
// Several wheels, from different orders and with different ways to promote, turn side by side; after a few
// rounds the worse half is replaced by shaken copies of the better half.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "problem/packing.hpp"
#include "problem/problem.hpp"

namespace lowtide {

struct ImproveOptions {
  Bytes target = 0;             // stop once the arena is no larger: a lower bound, or a capacity
  std::int64_t max_rounds = 1;  // each wheel turns once a round
  int threads = 1;
  std::uint64_t seed = 0;
  const std::atomic<bool>* stop;                  // raised by the caller: at the deadline, or to interrupt
  const std::vector<Bytes>* incumbent = nullptr;  // legal offsets to improve on, if there are any
  // Told of every improvement, by whichever thread finds it, one at a time.
  std::function<void(Bytes arena)> on_improvement;
};

struct Improvement {
  Packing packing;
  std::int64_t rounds = 0;  // finished
};

// Returns the best packing met: with equal arenas that of the lowest (round, wheel), so that the answer
// depends on neither the clock nor the number of threads, unless `stop` was raised. Without an incumbent at
// least one pass is finished, whatever `stop` says.
Improvement improve(const Problem& problem, const ImproveOptions& options);

}  // namespace lowtide
