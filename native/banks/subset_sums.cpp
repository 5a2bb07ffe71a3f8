#include "banks/subset_sums.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace lowtide {
namespace {

constexpr std::size_t kMostSums = 512;

}  // namespace

Reach reach_of(const std::vector<Bytes>& weights, Bytes room, std::int64_t& work) {
  std::vector<Bytes> sums = {0}, more, merged;  // of the weights so far, within the room; in order
  Bytes rest = std::accumulate(weights.begin(), weights.end(), Bytes{0});
  for (std::size_t k = 0; k <= weights.size(); ++k) {
    // The greatest sum decides: with all the rest on top it fits, or one cannot tell.
    if (sums.back() + rest <= room) return {sums.back() + rest, k};
    if (k == weights.size() || sums.size() > kMostSums || work < 0) break;
    rest -= weights[k];
    work -= static_cast<std::int64_t>(sums.size());
    more.clear();
    for (const Bytes sum : sums) {
      if (sum + weights[k] <= room) more.push_back(sum + weights[k]);
    }
    merged.clear();
    std::set_union(sums.begin(), sums.end(), more.begin(), more.end(), std::back_inserter(merged));
    std::swap(sums, merged);
  }
  return {room, weights.size()};
}

}  // namespace lowtide
