// What happens at each segment of a pass over time, and where a state remembers it.
#pragma once

#include <cstdint>
#include <vector>

#include "banks/reduction.hpp"

namespace lowtide {

// Bits of a state's memory: `width` of them from `at` on.
struct Slot {
  Index at = -1;
  Index width = 0;
};

struct Change {
  Index item;
  Bytes weight;  // more, or less, than before
};

struct Moment {
  Index segment;
  std::vector<Change> changes;  // of items decided before
  std::vector<Index> decided;   // items of which the bank is chosen now
  std::vector<Index> forgotten;
  bool binds = false;
};

// Moments [low, high) with nothing to remember before and after: what is best in one part does not depend on
// what is chosen in another.
struct Part {
  std::size_t low;
  std::size_t high;
};

class Agenda {
 public:
  explicit Agenda(const Reduction& reduction);

  const std::vector<Moment>& moments() const { return moments_; }
  const std::vector<Part>& parts() const { return parts_; }
  Slot slot(Index item) const { return slot_[item]; }
  Index words() const { return words_; }
  // Bytes held by an item when it is decided, and when it is forgotten.
  Bytes weight_first(Index item) const { return weight_first_[item]; }
  Bytes weight_last(Index item) const { return weight_last_[item]; }
  // For an item, the cuts that it is in.
  const std::vector<Index>& cuts(Index item) const { return cuts_[item]; }
  // The bit that is set while all decided members of a cut are in its bank; and its last member to be
  // decided.
  Index cut_bit(Index cut) const { return cut_bit_[cut]; }
  Index cut_first(Index cut) const { return cut_first_[cut]; }
  Index cut_last(Index cut) const { return cut_last_[cut]; }

 private:
  void find_binding();
  void place_item(Index item, std::vector<std::vector<Change>>& changes);
  void order_cuts();
  void assign_slots();
  void split();

  const Reduction& r_;
  std::vector<Index> binding_from_,
      binding_until_;                // by Reduction::at: the next that binds, and the one before
  std::vector<Index> first_, last_;  // segments at which items are decided and forgotten
  std::vector<Bytes> weight_first_, weight_last_;
  std::vector<Slot> slot_;
  std::vector<std::vector<Index>> cuts_;
  std::vector<Index> cut_bit_, cut_first_, cut_last_;
  std::vector<Moment> moments_;
  std::vector<Part> parts_;
  Index words_ = 0;
};

}  // namespace lowtide
