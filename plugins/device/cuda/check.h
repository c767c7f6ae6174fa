#pragma once
/// Judgement of descriptions: what the reference device judges, and what this one adds and leaves out. Pure.
#include <cstdint>

#include "core/plugin/operations.h"

namespace octachoron::cuda {

/// The description with absent trailing operands filled in and unused places cleared, so that equal
/// descriptions have equal bytes. \throws std::invalid_argument naming the operation and the operand,
/// attribute or type that is wrong;
///         plugin::Failure(OCT_UNSUPPORTED) for what this device does not compute
oct_operation checked(const oct_operation& operation);

/// For messages: "norm_backward", "dweight".
const char* operation_name(const oct_operation& operation);
const char* operand_name(const oct_operation& operation, int operand);

/// Operands in FP8, each with its scale.
bool is_fp8(std::int32_t dtype);

}  // namespace octachoron::cuda
