// A fixed-size table of dead ends.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "problem/problem.hpp"

namespace lowtide {

// Two independent 64-bit hashes: a false match among 10^9 states has a chance of about 10^-20.
struct StateHash {
  std::uint64_t a = 0;
  std::uint64_t b = 0;

  void add(std::uint64_t item, std::uint64_t value) {
    const std::uint64_t x = mix(item * 0x9e3779b97f4a7c15u + mix(value + 0x632be59bd9b4e019u));
    a += x;
    b ^= mix(x + 0xd1342543de82ef95u);
  }

 private:
  // The finaliser of SplitMix64; Steele, Lea and Flood (2014).
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
};

// Remembers, for a state, the largest arena in which it is known to be a dead end. New entries displace old.
class DeadEnds {
 public:
  bool contains(const StateHash& state, Bytes arena) const {
    if (!table_) return false;
    const Entry& entry = table_[state.a & kMask];
    return entry.a == state.a && entry.b == state.b && arena <= entry.arena;
  }

  void insert(const StateHash& state, Bytes arena) {
    if (!table_) {
      table_.reset(static_cast<Entry*>(std::calloc(kMask + 1, sizeof(Entry))));
      if (!table_) throw std::bad_alloc();
    }
    Entry& entry = table_[state.a & kMask];
    if (entry.a == state.a && entry.b == state.b && entry.arena > arena) return;
    entry = {state.a, state.b, arena};
  }

 private:
  struct Entry {
    std::uint64_t a;
    std::uint64_t b;
    Bytes arena;
  };
  struct Free {
    void operator()(Entry* table) const { std::free(table); }
  };
  static constexpr std::uint64_t kMask = (std::uint64_t{1} << 19) - 1;

  // Made at the first insertion, by calloc: pages that are never used cost nothing.
  std::unique_ptr<Entry[], Free> table_;
};

}  // namespace lowtide
