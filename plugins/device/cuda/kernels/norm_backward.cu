/// Gradients of LayerNorm and RMSNorm: dx with the partial sums of dweight and dbias in one pass over the
/// rows, then the partial sums.
#include "plugins/device/cuda/kernels/column_sum.cuh"

namespace octachoron::cuda {
namespace {

template <class T>
struct Backward {
  Rows<const T> dy, x, weight, residual;
  Rows<T> dx;
  const float* statistics;
  std::int64_t pitch, rows, columns;
  float *dweight, *dbias;  // [blocks, columns]; dbias may be null
  bool rms;
};

/// One row's two means: of g = dy * weight, and of g * normalised x.
struct Means {
  float shift, slope;
};
template <class T>
__device__ Means means(const Backward<T>& b, double g, double gx, double* shared) {
  double sums[2] = {g, gx};
  block_sum(sums, shared);
  return {b.rms ? 0.f : float(sums[0] / double(b.columns)), float(sums[1] / double(b.columns))};
}

/// Thread t treats chunks t, t + threads, ... below K of each row of its block. \tparam K chunks of a thread
template <class T, int K>
__global__ void __launch_bounds__(512) backward_kernel(Backward<T> b) {
  __shared__ double shared[2][64];
  float w[K][kChunk], dw[K][kChunk] = {}, db[K][kChunk] = {};
  std::int64_t column[K];
  int n[K];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    column[k] = (std::int64_t(k) * blockDim.x + threadIdx.x) * kChunk;
    const std::int64_t left = b.columns - column[k];
    n[k] = left < 0 ? 0 : left < kChunk ? int(left) : kChunk;
    b.weight.load(0, n[k] > 0 ? column[k] : 0, n[k], w[k]);
  }
  int turn = 0;  // two rooms for sums, so that one barrier a row is enough
  for (std::int64_t r = blockIdx.x; r < b.rows; r += gridDim.x, turn ^= 1) {
    const float mean = b.statistics[r * b.pitch], inverse = b.statistics[r * b.pitch + 1];
    float g[K][kChunk], normal[K][kChunk], sum_g = 0, sum_gx = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (n[k] == 0) continue;
      b.dy.load(r, column[k], n[k], g[k]);
      b.x.load(r, column[k], n[k], normal[k]);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        normal[k][i] = (normal[k][i] - mean) * inverse;
        dw[k][i] += g[k][i] * normal[k][i];
        db[k][i] += g[k][i];
        g[k][i] *= w[k][i];
        sum_g += g[k][i];
        sum_gx += i < n[k] ? g[k][i] * normal[k][i] : 0.f;
      }
    }
    const Means m = means(b, sum_g, sum_gx, shared[turn]);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (n[k] == 0) continue;
      float add[kChunk] = {};
      if (b.residual.data != nullptr) b.residual.load(r, column[k], n[k], add);
#pragma unroll
      for (int i = 0; i < kChunk; ++i)
        g[k][i] = inverse * (g[k][i] - m.shift - normal[k][i] * m.slope) + add[i];
      b.dx.save(r, column[k], n[k], g[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < n[k]; ++i) {
      b.dweight[blockIdx.x * b.columns + column[k] + i] = dw[k][i];
      if (b.dbias != nullptr) b.dbias[blockIdx.x * b.columns + column[k] + i] = db[k][i];
    }
  }
}

/// Rows too long for registers, first part: a thread sums one chunk of columns over the rows of its block.
template <class T>
__global__ void __launch_bounds__(256) long_parameters(Backward<T> b) {
  const std::int64_t column = (std::int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * kChunk;
  const std::int64_t left = b.columns - column;
  const int n = left < 0 ? 0 : left < kChunk ? int(left) : kChunk;
  if (n == 0) return;
  float dw[kChunk] = {}, db[kChunk] = {}, g[kChunk], x[kChunk];
  for (std::int64_t r = blockIdx.x; r < b.rows; r += gridDim.x) {
    const float mean = b.statistics[r * b.pitch], inverse = b.statistics[r * b.pitch + 1];
    b.dy.load(r, column, n, g);
    b.x.load(r, column, n, x);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      dw[i] += g[i] * ((x[i] - mean) * inverse);
      db[i] += g[i];
    }
  }
  for (int i = 0; i < n; ++i) {
    b.dweight[blockIdx.x * b.columns + column + i] = dw[i];
    if (b.dbias != nullptr) b.dbias[blockIdx.x * b.columns + column + i] = db[i];
  }
}

/// Second part, a block a row: dy, which dx may overwrite, is not needed by others any more.
template <class T>
__global__ void __launch_bounds__(512) long_rows(Backward<T> b) {
  __shared__ double shared[64];
  const std::int64_t r = blockIdx.x;
  const float mean = b.statistics[r * b.pitch], inverse = b.statistics[r * b.pitch + 1];
  float g[kChunk], x[kChunk], w[kChunk];
  const auto load = [&](std::int64_t column, int n) {
    b.dy.load(r, column, n, g);
    b.x.load(r, column, n, x);
    b.weight.load(0, column, n, w);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) g[i] *= w[i], x[i] = (x[i] - mean) * inverse;
  };
  const std::int64_t step = std::int64_t(blockDim.x) * kChunk;
  const auto count = [&](std::int64_t column) { return int(min(std::int64_t(kChunk), b.columns - column)); };
  double sum_g = 0, sum_gx = 0;
  for (std::int64_t c = threadIdx.x * kChunk; c < b.columns; c += step) {
    load(c, count(c));
    for (int i = 0; i < count(c); ++i) sum_g += g[i], sum_gx += g[i] * x[i];
  }
  const Means m = means(b, sum_g, sum_gx, shared);
  for (std::int64_t c = threadIdx.x * kChunk; c < b.columns; c += step) {
    float add[kChunk] = {};
    load(c, count(c));
    if (b.residual.data != nullptr) b.residual.load(r, c, count(c), add);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) g[i] = inverse * (g[i] - m.shift - x[i] * m.slope) + add[i];
    b.dx.save(r, c, count(c), g);
  }
}

struct Shape {
  std::int64_t chunks;
  unsigned block, blocks;
  bool is_long;
};
/// Enough blocks for 1024 threads on each of 128 processors, whatever the GPU has: the order of the sums is a
/// matter of the shape alone.
Shape shape_of(const oct_matrix& x) {
  const std::int64_t chunks = divide_up(x.columns, kChunk);
  const std::int64_t block = chunks < 512 ? round_up(chunks, 32) : 512, most = 131072 / block;
  const std::int64_t wanted = divide_up(x.rows, 4);
  return {chunks, unsigned(block), unsigned(wanted < 1 ? 1 : wanted < most ? wanted : most), chunks > 1024};
}

}  // namespace

std::int64_t norm_backward_workspace(const oct_operation& op) {
  const oct_matrix& x = op.operand[1];
  return 4 * std::int64_t(shape_of(x).blocks) * x.columns * (op.operand[7].rows > 0 ? 2 : 1);
}

void norm_backward(const Call& call) {
  const oct_operation& op = call.operation;
  const oct_matrix& m = op.operand[1];
  const Shape shape = shape_of(m);
  const bool bias = op.operand[7].rows > 0, accumulate = op.i[1] == 1;
  auto* dweight = data<float>(call, kWorkspace);
  float* dbias = bias ? dweight + std::int64_t(shape.blocks) * m.columns : nullptr;
  by_type(call, 1, [&](auto tag) {
    using T = decltype(tag);
    const Backward<T> b = {rows<const T>(call, 0),
                           rows<const T>(call, 1),
                           rows<const T>(call, 2),
                           rows<const T>(call, 4),
                           rows<T>(call, 5),
                           data<const float>(call, 3),
                           op.operand[3].pitch,
                           m.rows,
                           m.columns,
                           dweight,
                           dbias,
                           op.i[0] == 1};
    if (!shape.is_long) {
      const auto kernel = shape.chunks <= 512 ? backward_kernel<T, 1> : backward_kernel<T, 2>;
      launch(call, kernel, dim3(shape.blocks), shape.block, 0, b);
    } else {
      launch(call, long_parameters<T>, dim3(shape.blocks, unsigned(divide_up(shape.chunks, 256))), 256, 0, b);
      launch(call, long_rows<T>, dim3(unsigned(m.rows)), 512, 0, b);
    }
  });
  sum_partials(call, dweight, shape.blocks, m.columns, 6, accumulate);
  if (bias) sum_partials(call, dbias, shape.blocks, m.columns, 7, accumulate);
}

}  // namespace octachoron::cuda
