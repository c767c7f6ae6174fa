/// Sums over rows, in two stages of fixed shape.
#include "plugins/device/cuda/kernels/column_sum.cuh"

namespace octachoron::cuda {
namespace {

constexpr int kWarps = 8, kRowsPerPart = 256, kBlockColumns = 32 * kChunk;

std::int64_t parts_of(std::int64_t rows) {
  return rows > 0 ? divide_up(rows, kRowsPerPart) : 1;
}

/// A warp sums every eighth row of its part over 256 columns; 32 rows stay in FP32.
template <class T>
__global__ void __launch_bounds__(32 * kWarps)
    partial_sums(Rows<const T> x, std::int64_t rows, std::int64_t columns, float* partial) {
  __shared__ float sums[kWarps][kBlockColumns];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t column = std::int64_t(blockIdx.x) * kBlockColumns + lane * kChunk;
  const std::int64_t left = columns - column, begin = std::int64_t(blockIdx.y) * kRowsPerPart;
  const std::int64_t end = begin + kRowsPerPart < rows ? begin + kRowsPerPart : rows;
  const int n = left < 0 ? 0 : left < kChunk ? int(left) : kChunk;
  float sum[kChunk] = {}, v[kChunk];
  for (std::int64_t r = begin + warp; r < end && n > 0; r += kWarps) {
    x.load(r, column, n, v);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) sum[i] += v[i];
  }
#pragma unroll
  for (int i = 0; i < kChunk; ++i) sums[warp][i * 32 + lane] = sum[i];
  __syncthreads();
  const int c = threadIdx.x;  // a column of the block: chunk c / 8 is that of lane c / 8
  const std::int64_t at = std::int64_t(blockIdx.x) * kBlockColumns + c;
  if (at >= columns) return;
  double total = 0;
  for (int w = 0; w < kWarps; ++w) total += double(sums[w][c % kChunk * 32 + c / kChunk]);
  partial[std::int64_t(blockIdx.y) * columns + at] = float(total);
}

/// 32 columns a block; thread (x, y) sums every 32nd part of column x. The second row of blocks sums the
/// parts of `second`, which follow those of `out`.
template <class G>
__global__ void __launch_bounds__(1024)
    finish_sums(const float* partial, std::int64_t parts, std::int64_t columns, G* out, G* second,
                bool accumulate) {
  __shared__ double sums[32][33];
  if (blockIdx.y == 1) partial += parts * columns, out = second;
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  const std::int64_t column = std::int64_t(blockIdx.x) * 32 + x;
  double sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t p = y; p < parts; p += 32) sum += double(partial[p * columns + column]);
  }
  sums[y][x] = sum;
  __syncthreads();
  const double total = warp_sum(sums[x][y]);  // warp y: column y of the block
  const std::int64_t to = std::int64_t(blockIdx.x) * 32 + y;
  if (x == 0 && to < columns) store(out + to, float(accumulate ? double(wide(out[to])) + total : total));
}

}  // namespace

void sum_partials(const Call& call, const float* partial, std::int64_t parts, std::int64_t columns, int k,
                  int count, bool accumulate) {
  if (count == 2 && call.operation.operand[k].dtype != call.operation.operand[k + 1].dtype) {
    sum_partials(call, partial, parts, columns, k, 1, accumulate);
    return sum_partials(call, partial + parts * columns, parts, columns, k + 1, 1, accumulate);
  }
  by_type(call, k, [&](auto tag) {
    using G = decltype(tag);
    launch(call, finish_sums<G>, dim3(unsigned(divide_up(columns, 32)), unsigned(count)), 1024, 0, partial,
           parts, columns, data<G>(call, k), count == 2 ? data<G>(call, k + 1) : nullptr, accumulate);
  });
}

std::int64_t column_sum_workspace(const oct_operation& op) {
  return 4 * parts_of(op.operand[0].rows) * op.operand[0].columns;
}

void column_sum(const Call& call) {
  const oct_matrix& m = call.operation.operand[0];
  auto* partial = data<float>(call, kWorkspace);
  const std::int64_t parts = parts_of(m.rows);
  const dim3 grid(unsigned(divide_up(m.columns, kBlockColumns)), unsigned(parts));
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    launch(call, partial_sums<T>, grid, 32 * kWarps, 0, rows<const T>(call, 0), m.rows, m.columns, partial);
  });
  sum_partials(call, partial, parts, m.columns, 1, 1, call.operation.i[0] == 1);
}

}  // namespace octachoron::cuda
