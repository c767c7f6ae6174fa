#pragma once
/// Shape arithmetic in 64 bits that refuses to overflow (faults K11).
#include <cstdint>

#include "core/base/error.h"

namespace octachoron {

inline std::int64_t checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    fail(ExitStatus::usage, "the size ", a, " x ", b, " does not fit 64 bits; choose a smaller model");
  return product;
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
constexpr std::int64_t round_up(std::int64_t a, std::int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace octachoron
