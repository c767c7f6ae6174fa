#pragma once
/// Judgement of descriptions: whether an operation is well formed and what it costs. Pure.
#include <cstdint>
#include <string>

#include "core/plugin/operations.h"

namespace octachoron::device_common {

/// The description with absent trailing operands filled in and unused places cleared, so that equal
/// descriptions have equal bytes. \throws std::invalid_argument naming the operation and the operand,
/// attribute or type that is wrong;
///         plugin::Failure(OCT_UNSUPPORTED) for what this device does not compute
oct_operation checked(const oct_operation& operation);

/// Operand k of a checked description may be null because it is absent or empty.
bool is_empty(const oct_operation& operation, int operand);
/// "dweight", for messages.
const char* operand_name(const oct_operation& operation, int operand);
const char* operation_name(const oct_operation& operation);

bool is_fp8(int type);

/// Arithmetic and memory traffic of one execution, for the estimator.
struct Cost {
  double flops = 0, bytes = 0;
};
Cost cost(const oct_operation& operation);

/// Shape of a checked GEMM.
struct GemmShape {
  std::int64_t m, n, k;
};
GemmShape gemm_shape(const oct_operation& operation);

}  // namespace octachoron::device_common
