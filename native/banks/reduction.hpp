// A temporal knapsack on segments of time, without what is settled anyway.
//
// Time is cut at the moments that can matter: the starts after which something ends before anything else
// starts. A bank *binds* at a segment if all that may be there would be too much for it. Even then the light
// items do not matter if they fit on top of whatever the heavy ones can add up to. An item that matters
// nowhere in its life to its cheapest bank goes there (Vela: what always fits stays).
#pragma once

#include <cstdint>
#include <vector>

#include "banks/knapsack.hpp"

namespace lowtide {

// `weight` bytes in the segments [low, high).
struct Span {
  Index low;
  Index high;
  Bytes weight;
};

class Reduction {
 public:
  explicit Reduction(const BankProblem& problem);

  // Settles what can be; called again when choices were forbidden. False if nothing can hold the capacities.
  bool settle();

  const BankProblem& problem() const { return problem_; }
  Index banks() const { return problem_.banks; }
  Index count() const { return problem_.count(); }
  Index segments() const { return segments_; }
  const Span* begin(Index item) const { return spans_.data() + first_[item]; }
  const Span* end(Index item) const { return spans_.data() + first_[item + 1]; }
  Cost cost(Index item, Index bank) const { return problem_.cost[cell(item, bank)]; }
  bool allowed(Index item, Index bank) const { return (allowed_[item] >> bank & 1U) != 0; }
  void forbid(Index item, Index bank) { allowed_[item] &= ~(1U << bank); }

  // The bank of an item that is settled, or -1.
  Index settled(Index item) const { return settled_[item]; }
  bool in_cut(Index item) const { return in_cut_[item] != 0; }
  // Bytes that settled items leave of a bank, or the most that others can add up to within them.
  Bytes room(Index bank, Index segment) const { return room_[at(bank, segment)]; }
  bool binds(Index bank, Index segment) const { return binds_[at(bank, segment)] != 0; }
  // Index of a pair of bank and segment in flat arrays.
  std::size_t at(Index bank, Index segment) const {
    return static_cast<std::size_t>(bank) * segments_ + segment;
  }
  std::size_t cell(Index item, Index bank) const {
    return static_cast<std::size_t>(item) * problem_.banks + bank;
  }
  // Items that are not settled, in order.
  const std::vector<Index>& open() const { return open_; }

 private:
  void cut_time();
  void list_open();
  bool find_room();
  void find_binding();
  void find_mattering();
  void find_mattering_in(Index bank);
  bool settle_free();

  const BankProblem& problem_;
  Index segments_ = 0;
  std::vector<Index> first_;
  std::vector<Span> spans_;
  std::vector<std::uint32_t> allowed_;  // a bit for each bank
  std::vector<Index> settled_;
  std::vector<std::uint8_t> in_cut_;
  std::vector<Bytes> room_;
  std::vector<std::uint8_t> binds_;
  std::vector<std::uint8_t> matters_;  // of each item and bank, by cell: somewhere, in whether all fit
  std::vector<Index> open_;
  std::int64_t work_ = 40'000'000;  // left to look at sums of weights
};

}  // namespace lowtide
