/// Rotary embedding.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

struct Rope {
  const double* table;
  std::int64_t sequence;
  int heads, half;
  float sign;
};

/// A block rotates all heads of one token: its cosines and sines are made once, by the addition theorem in
/// FP64.
template <class T>
__global__ void __launch_bounds__(256) rope_kernel(Rows<T> qkv, Rope rope) {
  __shared__ float cosine[128], sine[128];
  const std::int64_t row = blockIdx.x, offset = row % rope.sequence;
  const int half = rope.half;
  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    const double* fine = rope.table + offset % kRopeStep * 2 * half;
    const double* coarse = rope.table + (kRopeStep + offset / kRopeStep) * 2 * half;
    cosine[i] = float(fine[i] * coarse[i] - fine[half + i] * coarse[half + i]);
    sine[i] = rope.sign * float(fine[half + i] * coarse[i] + fine[i] * coarse[half + i]);
  }
  __syncthreads();
  const int per_head = (half + kChunk - 1) / kChunk;
  const bool aligned = qkv.aligned && half % kChunk == 0;
  for (int k = threadIdx.x; k < rope.heads * per_head; k += blockDim.x) {
    const int head = k / per_head, first = (k - head * per_head) * kChunk;
    const int n = half - first < kChunk ? half - first : kChunk;
    const std::int64_t low = std::int64_t(head) * 2 * half + first;
    const Rows<T> x = {qkv.data, qkv.pitch, aligned};
    float a[kChunk], b[kChunk];
    x.load(row, low, n, a);
    x.load(row, low + half, n, b);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const float c = i < n ? cosine[first + i] : 0.f, s = i < n ? sine[first + i] : 0.f;
      const float turned = a[i] * c - b[i] * s;
      b[i] = b[i] * c + a[i] * s;
      a[i] = turned;
    }
    x.save(row, low, n, a);
    x.save(row, low + half, n, b);
  }
}

}  // namespace

void rope(const Call& call) {
  const oct_operation& op = call.operation;
  const Rope rope = {call.table, op.i[0], int(op.i[1] + op.i[2]), int(op.i[3] / 2), op.i[4] < 0 ? -1.f : 1.f};
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    launch(call, rope_kernel<T>, dim3(unsigned(op.operand[0].rows)), 256, 0, rows<T>(call, 0), rope);
  });
}

}  // namespace octachoron::cuda
