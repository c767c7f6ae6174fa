#pragma once
/// What both directions of attention share. A block of 256 threads stands for 16 x 16: thread (y, x) treats
/// rows y * R + i and columns x + 16 j of a tile of 16 R rows. All arithmetic is in FP32.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {

inline constexpr int kSide = 16, kAttentionThreads = kSide * kSide;

struct AttentionShape {
  std::int64_t length;  ///< of a sequence
  int heads, key_heads, size, group;
  float scale;

  explicit AttentionShape(const oct_operation& op)
      : length(op.i[0]),
        heads(int(op.i[1])),
        key_heads(int(op.i[2])),
        size(int(op.i[3])),
        group(heads / key_heads),
        scale(float(op.f[0])) {}
  /// Columns of qkv where a head begins.
  __device__ std::int64_t query(int head) const { return std::int64_t(head) * size; }
  __device__ std::int64_t key(int key_head) const { return std::int64_t(heads + key_head) * size; }
  __device__ std::int64_t value(int key_head) const {
    return std::int64_t(heads + key_heads + key_head) * size;
  }
};

/// A tile in shared memory: P columns, the head size rounded up, and a gap so that rows lie in different
/// banks.
template <int P>
inline constexpr int kStride = P + 4;

/// Rows row .. row + count - 1 and the head's columns; zeros beyond, up to `rows` and P.
template <class T, int P>
__device__ void load_tile(const Rows<const T>& from, std::int64_t row, std::int64_t count,
                          std::int64_t column, int size, int rows, float* tile) {
  const bool aligned = from.aligned && column % kChunk == 0;
  const Rows<const T> source = {from.data, from.pitch, aligned};
  for (int i = threadIdx.x; i < rows * (P / kChunk); i += kAttentionThreads) {
    const int r = i / (P / kChunk), c = i % (P / kChunk) * kChunk;
    const int left = size - c, n = left < 0 ? 0 : left < kChunk ? left : kChunk;
    float v[kChunk] = {};
    if (r < count && n > 0) source.load(row + r, column + c, n, v);
    float4* to = reinterpret_cast<float4*>(tile + r * kStride<P> + c);
    to[0] = make_float4(v[0], v[1], v[2], v[3]);
    to[1] = make_float4(v[4], v[5], v[6], v[7]);
  }
}

inline __device__ float dot4(float4 a, float4 b, float sum) {
  sum = fmaf(a.x, b.x, sum);
  sum = fmaf(a.y, b.y, sum);
  sum = fmaf(a.z, b.z, sum);
  return fmaf(a.w, b.w, sum);
}

/// out[i][j] = row (y R + i) of a times row (x + 16 j) of b.
template <int P, int R>
__device__ void row_products(const float* a, const float* b, float (&out)[R][R]) {
  const int x = threadIdx.x % kSide, y = threadIdx.x / kSide;
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int j = 0; j < R; ++j) out[i][j] = 0;
  for (int d = 0; d < P; d += 4) {
    float4 u[R], v[R];
#pragma unroll
    for (int i = 0; i < R; ++i) u[i] = *reinterpret_cast<const float4*>(a + (y * R + i) * kStride<P> + d);
#pragma unroll
    for (int j = 0; j < R; ++j) v[j] = *reinterpret_cast<const float4*>(b + (x + kSide * j) * kStride<P> + d);
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < R; ++j) out[i][j] = dot4(u[i], v[j], out[i][j]);
  }
}

/// R by padded head size: what shared memory holds. Backward at 64 takes 104 KiB, more than sm_89 has.
template <int P, bool Backward>
inline constexpr int kTileFactor = Backward ? (P <= 64    ? 4
                                               : P <= 128 ? 2
                                                          : 1)
                                            : (P <= 128 ? 4 : 2);

/// choose(std::integral_constant of P), the padded head size.
template <class Choose>
void by_head_size(std::int64_t size, Choose choose) {
  if (size <= 32) return choose(std::integral_constant<int, 32>{});
  if (size <= 64) return choose(std::integral_constant<int, 64>{});
  if (size <= 128) return choose(std::integral_constant<int, 128>{});
  return choose(std::integral_constant<int, 256>{});
}

}  // namespace octachoron::cuda
