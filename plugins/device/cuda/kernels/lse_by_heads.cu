/// The log-sum-exp of an attention in the order that cuDNN reads.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

constexpr int kTile = 32, kRows = 8;

/// A block a tile of 32 tokens and 32 heads; sequences in z.
__global__ void __launch_bounds__(kTile* kRows)
    by_heads_kernel(const float* from, std::int64_t pitch, float* to, std::int64_t length, int heads) {
  __shared__ float tile[kTile][kTile + 1];
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  const std::int64_t token = std::int64_t(blockIdx.x) * kTile, sequence = blockIdx.z;
  const int head = int(blockIdx.y) * kTile;
  for (int i = y; i < kTile; i += kRows) {
    if (token + i < length && head + x < heads)
      tile[i][x] = from[(sequence * length + token + i) * pitch + head + x];
  }
  __syncthreads();
  for (int i = y; i < kTile; i += kRows) {
    if (head + i < heads && token + x < length)
      to[(sequence * heads + head + i) * length + token + x] = tile[x][i];
  }
}

}  // namespace

void lse_by_heads(const Call& call) {
  const oct_operation& op = call.operation;
  const std::int64_t length = op.i[0], heads = op.i[1];
  const dim3 grid(unsigned(divide_up(length, kTile)), unsigned(divide_up(heads, kTile)),
                  unsigned(op.operand[0].rows / length));
  launch(call, by_heads_kernel, grid, kTile * kRows, 0, data<const float>(call, 2), op.operand[2].pitch,
         data<float>(call, kWorkspace), length, int(heads));
}

}  // namespace octachoron::cuda
