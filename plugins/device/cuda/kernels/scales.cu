/// Scales of FP8 casts: from the history of amaxes, or from the current one.
#include "core/plugin/abi.h"
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

constexpr int kThreads = 128;
constexpr std::uint32_t kInfinity = 0x7f800000u;

/// format maximum * 2^-margin / amax, at most 2^126
__device__ float scale_of(float numerator, float amax) {
  return fminf(__fdiv_rn(numerator, amax), 0x1p126f);
}

/// Over the block, the same in all threads. NaN is never in a history, so the order of bits is that of
/// numbers.
__device__ std::uint32_t block_max(std::uint32_t v, std::uint32_t* shared) {
  v = warp_max(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int w = 0; w < kThreads / 32; ++w) v = max(v, shared[w]);
  return v;
}

struct History {
  float* data;
  std::int64_t pitch, length;

  /// The largest positive entry, as bits; 0: there is none.
  __device__ std::uint32_t largest(std::int64_t row, std::uint32_t* shared) const {
    std::uint32_t v = 0;
    for (std::int64_t i = threadIdx.x; i < length; i += kThreads)
      if (data[row * pitch + i] > 0) v = max(v, __float_as_uint(data[row * pitch + i]));
    return block_max(v, shared);
  }
  /// The newest positive entry; 0: there is none.
  __device__ float newest(std::int64_t row, std::uint32_t* shared) const {
    std::uint32_t v = 0;  // the earlier the larger
    for (std::int64_t i = threadIdx.x; i < length; i += kThreads)
      if (data[row * pitch + i] > 0) v = max(v, std::uint32_t(length - i));
    v = block_max(v, shared);
    return v == 0 ? 0.f : data[row * pitch + length - v];
  }
  /// The oldest entry leaves, from the back in steps of the block.
  __device__ void push(std::int64_t row, float entry) const {
    float* h = data + row * pitch;
    for (std::int64_t end = length; end > 0; end -= kThreads) {
      const std::int64_t i = end - 1 - threadIdx.x;
      const float v = i > 0 ? h[i - 1] : entry;
      __syncthreads();
      if (i >= 0) h[i] = v;
      __syncthreads();
    }
  }
};

struct Update {
  const std::uint32_t* amax;
  std::int64_t amax_pitch;
  History history;
  float* scale;
  std::int64_t scale_pitch;
  float numerator;
  int algorithm;
  bool only_new;
};

__global__ void __launch_bounds__(kThreads) update_kernel(Update u) {
  __shared__ std::uint32_t shared[kThreads / 32];
  const std::int64_t row = blockIdx.x;
  const std::uint32_t amax = u.amax[row * u.amax_pitch];
  const bool known = u.history.largest(row, shared) > 0;
  if (u.only_new && known) return;
  if (amax < kInfinity) u.history.push(row, __uint_as_float(amax));
  if (u.algorithm == OCT_AMAX_FROZEN && known) return;
  const float from = u.algorithm == OCT_AMAX_MAX ? __uint_as_float(u.history.largest(row, shared))
                                                 : u.history.newest(row, shared);
  if (threadIdx.x == 0 && from > 0) u.scale[row * u.scale_pitch] = scale_of(u.numerator, from);
}

__global__ void __launch_bounds__(kThreads) current_kernel(const std::uint32_t* amax, History history,
                                                           const float* kept, float* scale, float numerator) {
  __shared__ std::uint32_t shared[kThreads / 32];
  const bool known = history.data != nullptr && kept != nullptr && history.largest(0, shared) > 0;
  if (threadIdx.x > 0) return;
  const std::uint32_t bits = *amax;
  *scale = known ? *kept : bits == 0 || bits >= kInfinity ? 1.f : scale_of(numerator, __uint_as_float(bits));
}

float numerator(const oct_operation& op) {
  return float(__builtin_ldexp(op.f[0], -int(op.i[0])));
}
History history(const Call& call) {
  const oct_matrix& m = call.operation.operand[1];
  return {data<float>(call, 1), m.pitch, m.columns};
}

}  // namespace

void update_scale(const Call& call) {
  const oct_operation& op = call.operation;
  const Update u = {data<const std::uint32_t>(call, 0),
                    op.operand[0].pitch,
                    history(call),
                    data<float>(call, 2),
                    op.operand[2].pitch,
                    numerator(op),
                    int(op.i[1]),
                    op.i[2] == 1};
  launch(call, update_kernel, dim3(unsigned(op.operand[0].rows)), kThreads, 0, u);
}

void current_scale(const Call& call) {
  launch(call, current_kernel, dim3(1), kThreads, 0, data<const std::uint32_t>(call, 0), history(call),
         data<const float>(call, 2), data<float>(call, 3), numerator(call.operation));
}

}  // namespace octachoron::cuda
