#pragma once
/// Operations made ready to run: a kernel with its description, or a matrix product by oneDNN.
#include <memory>

#include "plugins/device/cpu/lane.h"

namespace octachoron::cpu {

/// Prepares a checked description.
std::unique_ptr<Prepared> prepare(const oct_operation& operation, FindKernel find, int threads);

/// Workspace of a checked description, GEMM included.
std::int64_t planned_workspace(const oct_operation& operation, int threads);

}  // namespace octachoron::cpu
