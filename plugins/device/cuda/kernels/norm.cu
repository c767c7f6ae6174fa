/// LayerNorm and RMSNorm.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

template <class T>
struct Norm {
  Rows<const T> x, weight, bias;
  Rows<T> y;
  float* statistics;
  std::int64_t pitch, columns;
  double epsilon;
  bool rms;
};

/// Chunks k of this thread, each with the number of its columns. K > 0: they are kept in registers, so x is
/// read once; 0: any number, read again each time.
template <class T, int K>
struct Row {
  const Norm<T>& norm;
  std::int64_t row;
  float kept[K > 0 ? K : 1][kChunk];

  __device__ Row(const Norm<T>& n, std::int64_t r) : norm(n), row(r) {
    if constexpr (K > 0) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        if (count(k) > 0) norm.x.load(row, column(k), count(k), kept[k]);
      }
    }
  }
  __device__ std::int64_t column(int k) const {
    return (std::int64_t(k) * blockDim.x + threadIdx.x) * kChunk;
  }
  __device__ int count(int k) const {
    const std::int64_t left = norm.columns - column(k);
    return left < 0 ? 0 : left < kChunk ? int(left) : kChunk;
  }
  template <class F>
  __device__ void each(F f) {
    if constexpr (K > 0) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        if (count(k) > 0) f(column(k), count(k), kept[k]);
      }
    } else {
      for (int k = 0; count(k) > 0; ++k) {
        norm.x.load(row, column(k), count(k), kept[0]);
        f(column(k), count(k), kept[0]);
      }
    }
  }
};

template <class T, int K>
__global__ void __launch_bounds__(512) norm_kernel(Norm<T> norm) {
  __shared__ double shared[2][32];
  Row<T, K> row(norm, blockIdx.x);
  double mean = 0;
  if (!norm.rms) {
    float sum = 0;
    row.each([&](std::int64_t, int n, float(&v)[kChunk]) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sum += i < n ? v[i] : 0.f;
    });
    double total[1] = {double(sum)};
    block_sum(total, shared[0]);
    mean = total[0] / double(norm.columns);
  }
  // What is stored is what is used, so that the backward pass differentiates this very function.
  const float m = float(mean);
  float squares = 0;
  row.each([&](std::int64_t, int n, float(&v)[kChunk]) {
#pragma unroll
    for (int i = 0; i < kChunk; ++i) squares += i < n ? (v[i] - m) * (v[i] - m) : 0.f;
  });
  double total[1] = {double(squares)};
  block_sum(total, shared[1]);
  const float inverse = float(1 / sqrt(total[0] / double(norm.columns) + norm.epsilon));
  if (threadIdx.x == 0) {
    norm.statistics[row.row * norm.pitch] = m;
    norm.statistics[row.row * norm.pitch + 1] = inverse;
  }
  row.each([&](std::int64_t column, int n, float(&v)[kChunk]) {
    float w[kChunk], b[kChunk] = {};
    norm.weight.load(0, column, n, w);
    if (norm.bias.data != nullptr) norm.bias.load(0, column, n, b);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) v[i] = (v[i] - m) * inverse * w[i] + b[i];
    norm.y.save(row.row, column, n, v);
  });
}

}  // namespace

void norm(const Call& call) {
  const oct_operation& op = call.operation;
  const std::int64_t columns = op.operand[0].columns, chunks = divide_up(columns, kChunk);
  const unsigned block = unsigned(chunks < 512 ? round_up(chunks, 32) : 512);
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    const Norm<T> norm = {rows<const T>(call, 0),
                          rows<const T>(call, 1),
                          rows<const T>(call, 2),
                          rows<T>(call, 3),
                          data<float>(call, 4),
                          op.operand[4].pitch,
                          columns,
                          op.f[0],
                          op.i[0] == 1};
    const auto kernel = chunks <= 512    ? norm_kernel<T, 1>
                        : chunks <= 2048 ? norm_kernel<T, 4>
                                         : norm_kernel<T, 0>;
    launch(call, kernel, dim3(unsigned(op.operand[0].rows)), block, 0, norm);
  });
}

}  // namespace octachoron::cuda
