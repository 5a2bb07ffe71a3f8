// The verifier of lifetimes against offsets. It shares no code with the packers.
#pragma once

#include <optional>
#include <vector>

#include "problem/problem.hpp"

namespace lowtide {

struct Violation {
  enum class Kind {
    kOverlap,    // i and j share bytes while both are alive, and no permission says that they may
    kCapacity,   // i ends above the capacity
    kReserved,   // i uses the reserved prefix, or lies below 0
    kAlignment,  // i's offset is not a multiple of its alignment
    kPin,        // i is not where it is pinned
    kPlacement,  // i (inner) is not at its distance inside j (outer)
  };
  Kind kind;
  Index i;
  Index j;  // -1 where only one buffer is to blame
};

struct CheckResult {
  std::vector<Violation> violations;
  bool truncated = false;                   // more than `limit` were found
  std::optional<std::int64_t> reuse_pairs;  // pairs that share bytes but no time; not known if truncated
};

// O((m + v) log m) for m intervals and v overlaps found, permitted ones among them.
// Throws std::invalid_argument if there is not one offset for each buffer.
CheckResult check(const Problem& problem, const std::vector<Bytes>& offset, std::size_t limit);

}  // namespace lowtide
