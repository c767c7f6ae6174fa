#pragma once
/// Which operations can carry a cast of their result to FP8, and where its operands stand (operations.h).
#include "core/plugin/operations.h"

namespace octachoron {

struct FusedCast {
  int wide = -1;  ///< operand whose values are cast; -1: the operation cannot carry a cast
  int first = 0;  ///< operands of the operation itself; those of the cast follow

  constexpr bool possible() const { return wide >= 0; }
  constexpr int scale() const { return first; }
  constexpr int row() const { return first + 1; }
  constexpr int amax() const { return first + 2; }
  constexpr int counters() const { return first + 3; }
  /// Whether an operation with that many operands does carry one.
  constexpr bool is_in(int operands) const { return possible() && operands == first + OCT_CAST_OPERANDS; }
};

constexpr FusedCast fused_cast(int op) {
  switch (op) {
    case OCT_NORM:
      return {3, 5};
    case OCT_NORM_BACKWARD:
      return {5, 8};
    case OCT_GELU:
    case OCT_SWIGLU:
      return {1, 2};
    case OCT_GELU_BACKWARD:
    case OCT_SWIGLU_BACKWARD:
      return {2, 3};
    default:
      return {};
  }
}
static_assert(fused_cast(OCT_NORM_BACKWARD).counters() < OCT_MAX_OPERANDS);

}  // namespace octachoron
