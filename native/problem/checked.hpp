// Arithmetic on bytes that refuses to wrap.
#pragma once

#include <limits>
#include <stdexcept>

#include "problem/problem.hpp"

namespace lowtide {

inline constexpr Bytes kMaxBytes = std::numeric_limits<Bytes>::max();

[[noreturn]] inline void throw_overflow() {
  throw std::overflow_error("an offset would pass 2^63 - 1 bytes");
}

inline Bytes checked_add(Bytes a, Bytes b) {
  Bytes sum;
  if (__builtin_add_overflow(a, b, &sum)) throw_overflow();
  return sum;
}

// The least x >= value with x = phase (mod step), for 0 <= phase < step.
inline Bytes round_up(Bytes value, Bytes step, Bytes phase = 0) {
  if (step == 1) return value;
  Bytes excess = (value - phase) % step;
  if (excess < 0) excess += step;
  return excess == 0 ? value : checked_add(value, step - excess);
}

}  // namespace lowtide
