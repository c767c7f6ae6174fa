#pragma once
/// Names of the operations and their operands, in the order of operations.h.
#include "core/plugin/operations.h"

namespace octachoron::device_common {

struct Signature {
  int op;
  const char* name;
  int required;  ///< operands that must be listed; optional ones at the end may be left out
  int operands;
  const char* operand[9];
};

/// Of a cast behind the operands of an operation (core/plugin/fused_cast.h).
inline constexpr const char* kCastOperand[OCT_CAST_OPERANDS] = {"scale", "row", "amax", "counters"};

/// \returns null for an operation that is not one of a device
const Signature* signature(int op);

}  // namespace octachoron::device_common
