/// Causal attention by tiles with a running softmax: the score matrix is never stored. A block computes one
/// query tile of one head; all sums run in a fixed order.
#include "plugins/device/cuda/kernels/attention_tiles.cuh"

namespace octachoron::cuda {
namespace {

template <class T>
struct Forward {
  Rows<const T> qkv;
  Rows<T> out;
  float* lse;
  std::int64_t lse_pitch;
  AttentionShape shape;
};

/// One row's running maximum and sum, the same in the 16 threads of the row.
template <int R>
struct Running {
  float maximum[R], sum[R];
};

/// Largest and summed over the 16 threads that share a row: they are half a warp.
__device__ float row_max(float v) {
#pragma unroll
  for (int step = kSide / 2; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, step));
  return v;
}
__device__ float row_sum(float v) {
#pragma unroll
  for (int step = kSide / 2; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  return v;
}

/// Scores become probabilities relative to the running maximum, and go to shared memory. \returns nothing;
/// `shrink` is by how much what was summed before counts less now
template <int R>
__device__ void soften(float (&score)[R][R], std::int64_t first_visible, float scale, Running<R>& running,
                       float (&shrink)[R], float* p) {
  const int x = threadIdx.x % kSide, y = threadIdx.x / kSide;
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const std::int64_t last = first_visible + y * R + i;  // the last key of the tile that this query sees
    float largest = running.maximum[i];
#pragma unroll
    for (int j = 0; j < R; ++j) {
      score[i][j] = x + kSide * j <= last ? score[i][j] * scale : -INFINITY;
      largest = fmaxf(largest, score[i][j]);
    }
    largest = row_max(largest);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < R; ++j) {
      const float e = expf(score[i][j] - largest);
      p[(y * R + i) * kStride<kSide * R> + x + kSide * j] = e;
      sum += e;
    }
    shrink[i] = expf(running.maximum[i] - largest);
    running.sum[i] = running.sum[i] * shrink[i] + row_sum(sum);
    running.maximum[i] = largest;
  }
}

template <class T, int P, int R>
__global__ void __launch_bounds__(kAttentionThreads) forward_kernel(Forward<T> f) {
  constexpr int tile = kSide * R, columns = P / kSide;
  extern __shared__ float4 memory[];
  float *q = reinterpret_cast<float*>(memory), *kv = q + tile * kStride<P>, *p = kv + tile * kStride<P>;
  const AttentionShape& s = f.shape;
  const int x = threadIdx.x % kSide, y = threadIdx.x / kSide, head = blockIdx.y, key_head = head / s.group;
  // The dear tiles, with many keys, first.
  const std::int64_t first = std::int64_t(gridDim.x - 1 - blockIdx.x) * tile,
                     base = std::int64_t(blockIdx.z) * s.length;
  const std::int64_t rows = min(std::int64_t(tile), s.length - first);
  load_tile<T, P>(f.qkv, base + first, rows, s.query(head), s.size, tile, q);
  float out[R][columns] = {}, score[R][R], shrink[R];
  Running<R> running;
#pragma unroll
  for (int i = 0; i < R; ++i) running.maximum[i] = -INFINITY, running.sum[i] = 0;
  for (std::int64_t key = 0; key <= first; key += tile) {
    const std::int64_t keys = min(std::int64_t(tile), s.length - key);
    __syncthreads();
    load_tile<T, P>(f.qkv, base + key, keys, s.key(key_head), s.size, tile, kv);
    __syncthreads();
    row_products<P, R>(q, kv, score);
    __syncthreads();
    load_tile<T, P>(f.qkv, base + key, keys, s.value(key_head), s.size, tile, kv);
    soften<R>(score, first - key, s.scale, running, shrink, p);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int c = 0; c < columns; ++c) out[i][c] *= shrink[i];
    for (int k = 0; k < tile; k += 4) {
      float4 weight[R];
#pragma unroll
      for (int i = 0; i < R; ++i)
        weight[i] = *reinterpret_cast<const float4*>(p + (y * R + i) * kStride<tile> + k);
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        const float* v = kv + k * kStride<P> + x + kSide * c;
        const float4 value = make_float4(v[0], v[kStride<P>], v[2 * kStride<P>], v[3 * kStride<P>]);
#pragma unroll
        for (int i = 0; i < R; ++i) out[i][c] = dot4(weight[i], value, out[i][c]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const std::int64_t row = first + y * R + i;
    if (row >= s.length) continue;
    const float inverse = 1.f / running.sum[i];
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      const int column = x + kSide * c;
      if (column < s.size) store(f.out.at(base + row, s.query(head) + column), out[i][c] * inverse);
    }
    if (x == 0) {
      f.lse[(base + row) * f.lse_pitch + head] =
          float(double(running.maximum[i]) + log(double(running.sum[i])));
    }
  }
}

}  // namespace

void attention(const Call& call) {
  const oct_operation& op = call.operation;
  const AttentionShape shape(op);
  by_type(call, 0, [&](auto tag) {
    by_head_size(shape.size, [&](auto padded) {
      using T = decltype(tag);
      constexpr int P = decltype(padded)::value, R = kTileFactor<P, false>, tile = kSide * R;
      const Forward<T> f = {rows<const T>(call, 0), rows<T>(call, 1), data<float>(call, 2),
                            op.operand[2].pitch, shape};
      const dim3 grid(unsigned(divide_up(shape.length, tile)), unsigned(shape.heads),
                      unsigned(op.operand[0].rows / shape.length));
      launch(call, forward_kernel<T, P, R>, grid, kAttentionThreads,
             sizeof(float) * (2 * tile * kStride<P> + tile * kStride<tile>), f);
    });
  });
}

}  // namespace octachoron::cuda
