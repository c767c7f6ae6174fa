/// A matrix product for operands that cuBLASLt does not take, as some at odd addresses: right, not fast.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

constexpr int kTile = 16;

template <class T, class B, class D>
struct Simple {
  Rows<const T> a, b;
  Rows<const B> bias;
  Rows<D> d;
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
};

/// A thread an element of the result, by tiles of 16 x 16.
template <class T, class B, class D>
__global__ void __launch_bounds__(kTile* kTile) simple_kernel(Simple<T, B, D> s) {
  __shared__ float a[kTile][kTile + 1], b[kTile][kTile + 1];
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  const std::int64_t row = std::int64_t(blockIdx.x) * kTile + y,
                     column = std::int64_t(blockIdx.y) * kTile + x;
  float sum = 0;
  for (std::int64_t first = 0; first < s.k; first += kTile) {
    const std::int64_t ka = first + x, kb = first + y;
    a[y][x] = row < s.m && ka < s.k ? wide(*(s.transpose_a ? s.a.at(ka, row) : s.a.at(row, ka))) : 0.f;
    b[y][x] =
        column < s.n && kb < s.k ? wide(*(s.transpose_b ? s.b.at(column, kb) : s.b.at(kb, column))) : 0.f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; ++i) sum = fmaf(a[y][i], b[i][x], sum);
    __syncthreads();
  }
  if (row >= s.m || column >= s.n) return;
  if (s.bias.data != nullptr) sum += wide(*s.bias.at(0, column));
  D* to = s.d.at(row, column);
  store(to, s.accumulate ? sum + wide(*to) : sum);
}

}  // namespace

void gemm_simple(const Call& call) {
  const oct_operation& op = call.operation;
  const oct_matrix &a = op.operand[0], &d = op.operand[5];
  const dim3 grid(unsigned(divide_up(d.rows, kTile)), unsigned(divide_up(d.columns, kTile)));
  by_type(call, 0, [&](auto type) {
    by_type(call, 4, [&](auto bias) {
      by_type(call, 5, [&](auto result) {
        using T = decltype(type);
        using B = decltype(bias);
        using D = decltype(result);
        const Simple<T, B, D> s = {rows<const T>(call, 0),
                                   rows<const T>(call, 1),
                                   rows<const B>(call, 4),
                                   rows<D>(call, 5),
                                   d.rows,
                                   d.columns,
                                   op.i[0] == 1 ? a.rows : a.columns,
                                   op.i[0] == 1,
                                   op.i[1] == 1,
                                   op.i[2] == 1};
        launch(call, simple_kernel<T, B, D>, grid, kTile * kTile, 0, s);
      });
    });
  });
}

}  // namespace octachoron::cuda
