#pragma once
/// The second stage of sums over rows.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {

/// Operands k .. k + count - 1, count 1 or 2, [1,columns] of type F32 or BF16 = sum over the rows of
/// `partial` [count,parts,columns], in FP64 and in a fixed order (+ itself if accumulate).
void sum_partials(const Call& call, const float* partial, std::int64_t parts, std::int64_t columns, int k,
                  int count, bool accumulate);

}  // namespace octachoron::cuda
