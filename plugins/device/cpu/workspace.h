#pragma once
/// Workspace of the own kernels.
#include <cstdint>

#include "core/plugin/operations.h"

namespace octachoron::cpu {

/// Of a checked description, in bytes.
std::int64_t workspace_bytes(const oct_operation& operation, int threads);

}  // namespace octachoron::cpu
