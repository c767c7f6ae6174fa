#pragma once
/// Reductions over the members of a group, always in group order: the result depends on nothing else.
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/plugin/operations.h"

namespace octachoron::mpi {

/// SUM and MAX of f32, f64, bf16, i32, u32, u64. BF16 is summed in FP32 and rounded once; a NaN wins a MAX.
bool can_reduce(int dtype, int reduction);

/// out[i] = inputs[0][i] + inputs[1][i] + ... (or the maximum), for i < count. `out` may be one of the
/// inputs.
void reduce(int dtype, int reduction, std::span<const std::byte* const> inputs, std::int64_t count,
            std::byte* out);

}  // namespace octachoron::mpi
