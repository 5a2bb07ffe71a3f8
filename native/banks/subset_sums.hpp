// What the weights at one moment can add up to.
#pragma once

#include <vector>

#include "problem/problem.hpp"

namespace lowtide {

struct Reach {
  Bytes most = 0;  // no subset within the room weighs more than this
  std::size_t bound =
      0;  // the first so many of the weights matter; the others fit in whatever is chosen of them
};

// `weights` from the heaviest down. Sums are followed as long as there are not too many different ones, and
// as long as there is work left, of which each sum that is made takes one.
Reach reach_of(const std::vector<Bytes>& weights, Bytes room, std::int64_t& work);

}  // namespace lowtide
