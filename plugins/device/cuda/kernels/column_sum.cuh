#pragma once
/// The second stage of sums over rows.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {

/// Operand k [1,columns] of type F32 or BF16 = sum over the rows of `partial` [parts,columns], in FP64 and in
/// a fixed order (+ itself if accumulate).
void sum_partials(const Call& call, const float* partial, std::int64_t parts, std::int64_t columns, int k,
                  bool accumulate);

}  // namespace octachoron::cuda
