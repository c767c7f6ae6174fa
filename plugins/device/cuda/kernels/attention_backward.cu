/// Gradient of causal attention: probabilities are recomputed tile by tile from the saved log-sum-exp. One
/// kernel makes dk and dv of a key tile, another dq of a query tile, so no sum is shared between blocks and
/// the order is fixed.
#include "plugins/device/cuda/kernels/attention_tiles.cuh"

namespace octachoron::cuda {
namespace {

template <class T>
struct Backward {
  Rows<const T> qkv, out, dout;
  Rows<T> dqkv;
  const float* lse;
  std::int64_t lse_pitch, tokens;
  float* delta;  // [tokens, heads]: sums of dout * out
  AttentionShape shape;
};

/// A warp a (token, head).
template <class T>
__global__ void __launch_bounds__(256) delta_kernel(Backward<T> b) {
  const std::int64_t i = std::int64_t(blockIdx.x) * 8 + threadIdx.x / 32, token = i / b.shape.heads;
  if (token >= b.tokens) return;
  const std::int64_t column = i % b.shape.heads * b.shape.size;
  double sum = 0;
  for (int d = threadIdx.x % 32; d < b.shape.size; d += 32)
    sum += double(wide(*b.out.at(token, column + d))) * double(wide(*b.dout.at(token, column + d)));
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) b.delta[i] = float(sum);
}

/// The four tiles in shared memory, and what lies between two products.
template <int P, int R>
struct Tiles {
  static constexpr int tile = kSide * R;
  float *k, *v, *q, *dout, *p, *ds;
  explicit __device__ Tiles(float* memory)
      : k(memory),
        v(k + tile * kStride<P>),
        q(v + tile * kStride<P>),
        dout(q + tile * kStride<P>),
        p(dout + tile * kStride<P>),
        ds(p + tile * kStride<tile>) {}
  static constexpr std::size_t bytes = sizeof(float) * (4 * tile * kStride<P> + 2 * tile * kStride<tile>);
};

/// Probabilities and gradients of the scaled scores of a query tile and a key tile, 0 where hidden or beyond
/// the rows.
template <class T, int P, int R>
__device__ void score_gradient(const Backward<T>& b, const Tiles<P, R>& t, std::int64_t base,
                               std::int64_t first, std::int64_t key, int head) {
  const int x = threadIdx.x % kSide, y = threadIdx.x / kSide;
  float score[R][R], gradient[R][R];
  row_products<P, R>(t.q, t.k, score);
  row_products<P, R>(t.dout, t.v, gradient);
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const std::int64_t query = first + y * R + i, token = base + query;
    const bool exists = query < b.shape.length;
    const float lse = exists ? b.lse[token * b.lse_pitch + head] : 0.f;
    const float delta = exists ? b.delta[token * b.shape.heads + head] : 0.f;
#pragma unroll
    for (int j = 0; j < R; ++j) {
      const bool seen = exists && key + x + kSide * j <= query;
      const float p = seen ? expf(score[i][j] * b.shape.scale - lse) : 0.f;
      const int at = (y * R + i) * kStride<kSide * R> + x + kSide * j;
      t.p[at] = p;
      t.ds[at] = seen ? p * (gradient[i][j] - delta) * b.shape.scale : 0.f;
    }
  }
}

/// to[i][c] += sum over k of weight * value[k][x + 16 c], weight in row (or column) y R + i of a square tile.
template <int P, int R, bool Column>
__device__ void add_products(const float* weights, const float* values, float (&to)[R][P / kSide]) {
  constexpr int tile = kSide * R;
  const int x = threadIdx.x % kSide, y = threadIdx.x / kSide;
  for (int k = 0; k < tile; ++k) {
    float w[R];
#pragma unroll
    for (int i = 0; i < R; ++i)
      w[i] = Column ? weights[k * kStride<tile> + y * R + i] : weights[(y * R + i) * kStride<tile> + k];
#pragma unroll
    for (int c = 0; c < P / kSide; ++c) {
      const float v = values[k * kStride<P> + x + kSide * c];
#pragma unroll
      for (int i = 0; i < R; ++i) to[i][c] = fmaf(w[i], v, to[i][c]);
    }
  }
}

template <class T, int P, int R>
__device__ void write_tile(const Backward<T>& b, const float (&from)[R][P / kSide], std::int64_t base,
                           std::int64_t first, std::int64_t column) {
  const int x = threadIdx.x % kSide, y = threadIdx.x / kSide;
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const std::int64_t row = first + y * R + i;
    if (row >= b.shape.length) continue;
#pragma unroll
    for (int c = 0; c < P / kSide; ++c) {
      if (x + kSide * c < b.shape.size) store(b.dqkv.at(base + row, column + x + kSide * c), from[i][c]);
    }
  }
}

/// dk and dv of one key tile and key head: over the query heads of the group and the query tiles from this
/// one on.
template <class T, int P, int R>
__global__ void __launch_bounds__(kAttentionThreads) key_kernel(Backward<T> b) {
  constexpr int tile = kSide * R;
  extern __shared__ float4 memory[];
  const Tiles<P, R> t(reinterpret_cast<float*>(memory));
  const AttentionShape& s = b.shape;
  const int key_head = blockIdx.y;
  const std::int64_t key = std::int64_t(blockIdx.x) * tile, base = std::int64_t(blockIdx.z) * s.length;
  const std::int64_t keys = min(std::int64_t(tile), s.length - key);
  load_tile<T, P>(b.qkv, base + key, keys, s.key(key_head), s.size, tile, t.k);
  load_tile<T, P>(b.qkv, base + key, keys, s.value(key_head), s.size, tile, t.v);
  float dk[R][P / kSide] = {}, dv[R][P / kSide] = {};
  for (int head = key_head * s.group; head < (key_head + 1) * s.group; ++head) {
    for (std::int64_t first = key; first < s.length; first += tile) {
      const std::int64_t rows = min(std::int64_t(tile), s.length - first);
      __syncthreads();
      load_tile<T, P>(b.qkv, base + first, rows, s.query(head), s.size, tile, t.q);
      load_tile<T, P>(b.dout, base + first, rows, s.query(head), s.size, tile, t.dout);
      __syncthreads();
      score_gradient<T, P, R>(b, t, base, first, key, head);
      __syncthreads();
      add_products<P, R, true>(t.p, t.dout, dv);
      add_products<P, R, true>(t.ds, t.q, dk);
    }
  }
  write_tile<T, P, R>(b, dk, base, key, s.key(key_head));
  write_tile<T, P, R>(b, dv, base, key, s.value(key_head));
}

/// dq of one query tile and head.
template <class T, int P, int R>
__global__ void __launch_bounds__(kAttentionThreads) query_kernel(Backward<T> b) {
  constexpr int tile = kSide * R;
  extern __shared__ float4 memory[];
  const Tiles<P, R> t(reinterpret_cast<float*>(memory));
  const AttentionShape& s = b.shape;
  const int head = blockIdx.y, key_head = head / s.group;
  const std::int64_t first = std::int64_t(gridDim.x - 1 - blockIdx.x) * tile,
                     base = std::int64_t(blockIdx.z) * s.length;
  const std::int64_t rows = min(std::int64_t(tile), s.length - first);
  load_tile<T, P>(b.qkv, base + first, rows, s.query(head), s.size, tile, t.q);
  load_tile<T, P>(b.dout, base + first, rows, s.query(head), s.size, tile, t.dout);
  float dq[R][P / kSide] = {};
  for (std::int64_t key = 0; key <= first; key += tile) {
    const std::int64_t keys = min(std::int64_t(tile), s.length - key);
    __syncthreads();
    load_tile<T, P>(b.qkv, base + key, keys, s.key(key_head), s.size, tile, t.k);
    load_tile<T, P>(b.qkv, base + key, keys, s.value(key_head), s.size, tile, t.v);
    __syncthreads();
    score_gradient<T, P, R>(b, t, base, first, key, head);
    __syncthreads();
    add_products<P, R, false>(t.ds, t.k, dq);
  }
  write_tile<T, P, R>(b, dq, base, first, s.query(head));
}

}  // namespace

void attention_backward(const Call& call) {
  const oct_operation& op = call.operation;
  const AttentionShape shape(op);
  const std::int64_t tokens = op.operand[0].rows;
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    const Backward<T> b = {rows<const T>(call, 0),
                           rows<const T>(call, 1),
                           rows<const T>(call, 3),
                           rows<T>(call, 4),
                           data<const float>(call, 2),
                           op.operand[2].pitch,
                           tokens,
                           data<float>(call, kWorkspace),
                           shape};
    launch(call, delta_kernel<T>, dim3(unsigned(divide_up(tokens * shape.heads, 8))), 256, 0, b);
    by_head_size(shape.size, [&](auto padded) {
      constexpr int P = decltype(padded)::value, R = kTileFactor<P, true>;
      const auto tiles = unsigned(divide_up(shape.length, kSide * R)),
                 batch = unsigned(tokens / shape.length);
      launch(call, key_kernel<T, P, R>, dim3(tiles, unsigned(shape.key_heads), batch), kAttentionThreads,
             Tiles<P, R>::bytes, b);
      launch(call, query_kernel<T, P, R>, dim3(tiles, unsigned(shape.heads), batch), kAttentionThreads,
             Tiles<P, R>::bytes, b);
    });
  });
}

}  // namespace octachoron::cuda
