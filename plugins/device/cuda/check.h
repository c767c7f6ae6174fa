#pragma once
/// Judgement of descriptions: that of all devices, and what this one does not compute. Pure.
#include "core/plugin/operations.h"

namespace octachoron::cuda {

/// As device_common::checked(). \throws std::invalid_argument naming the operation and the operand, attribute or type
/// that is wrong; plugin::Failure(OCT_UNSUPPORTED) for what this device does not compute
oct_operation checked(const oct_operation& operation);

}  // namespace octachoron::cuda
