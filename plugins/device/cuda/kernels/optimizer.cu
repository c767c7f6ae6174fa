/// Gradient norm, clip factor and AdamW.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

constexpr std::int64_t kPerBlock = 16384, kMostBlocks = 1024;

unsigned blocks_of(const oct_matrix& m) {
  const std::int64_t wanted = divide_up(m.rows * m.columns, kPerBlock);
  return unsigned(wanted < 1 ? 1 : wanted < kMostBlocks ? wanted : kMostBlocks);
}

template <class T>
__global__ void __launch_bounds__(512)
    partial_squares(Rows<const T> x, std::uint32_t per_row, std::uint32_t chunks, std::int64_t columns,
                    double* partial) {
  __shared__ double shared[32];
  double sum[1] = {0};
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < chunks; i += gridDim.x * blockDim.x) {
    const std::uint32_t row = i / per_row;
    const std::int64_t column = std::int64_t(i - row * per_row) * kChunk, left = columns - column;
    float v[kChunk];
    x.load(row, column, left < kChunk ? int(left) : kChunk, v);
#pragma unroll
    for (int k = 0; k < kChunk; ++k) sum[0] += double(v[k]) * double(v[k]);
  }
  block_sum(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum[0];
}

__global__ void __launch_bounds__(1024)
    finish_squares(const double* partial, int n, double factor, double* sum, bool accumulate) {
  __shared__ double shared[32];
  double total[1] = {int(threadIdx.x) < n ? partial[threadIdx.x] : 0.};
  block_sum(total, shared);
  if (threadIdx.x == 0) *sum = (accumulate ? *sum : 0.) + factor * total[0];
}

__global__ void clip_kernel(const double* control, const double* scalars, double* result, double limit) {
  const double norm = sqrt(control[0] + control[1]), loss = control[2] * scalars[OCT_SCALAR_INVERSE_TOKENS];
  result[0] = norm;
  result[1] = limit > 0 && norm > limit ? limit / norm : 1;
  result[2] = isfinite(norm) && isfinite(loss) ? 1 : 0;
  result[3] = loss;
}

/// The factors of one step, rounded once.
struct Factors {
  float beta1, rest1, beta2, rest2, epsilon, shrink, rate, inverse_root2, factor, flag;
};
struct Settings {
  double beta1, beta2, epsilon, decay;
};
__global__ void factors_kernel(const double* scalars, const double* result, Settings s, Factors* out) {
  const double rate = scalars[OCT_SCALAR_LEARNING_RATE], step = scalars[OCT_SCALAR_STEP];
  const double correction1 = 1 - pow(s.beta1, step), correction2 = 1 - pow(s.beta2, step);
  *out = {float(s.beta1),
          float(1 - s.beta1),
          float(s.beta2),
          float(1 - s.beta2),
          float(s.epsilon),
          float(1 - rate * s.decay),
          float(rate / correction1),
          float(1 / sqrt(correction2)),
          float(result[1]),
          result[2] == 0 ? 0.f : 1.f};
}

template <class G, class W>
struct AdamW {
  const Factors* factors;
  Rows<const G> gradient;
  Rows<float> master, average, square;
  Rows<W> weight;
  __device__ void operator()(std::int64_t row, std::int64_t column, int n) const {
    const Factors a = *factors;
    if (a.flag == 0) return;
    float g[kChunk], p[kChunk], m[kChunk], v[kChunk];
    gradient.load(row, column, n, g);
    master.load(row, column, n, p);
    average.load(row, column, n, m);
    square.load(row, column, n, v);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      g[i] *= a.factor;
      m[i] = a.beta1 * m[i] + a.rest1 * g[i];
      v[i] = a.beta2 * v[i] + a.rest2 * (g[i] * g[i]);
      // With epsilon 0 there is nothing to divide by where gradients were always 0, or their squares are: no update.
      const float root = sqrtf(v[i]) * a.inverse_root2 + a.epsilon;
      p[i] = p[i] * a.shrink - (root == 0.f ? 0.f : a.rate * m[i] / root);
    }
    average.save(row, column, n, m);
    square.save(row, column, n, v);
    master.save(row, column, n, p);
    if (weight.data != nullptr) weight.save(row, column, n, p);
  }
};

}  // namespace

std::int64_t sum_of_squares_workspace(const oct_operation& op) {
  return 8 * std::int64_t(blocks_of(op.operand[0]));
}

void sum_of_squares(const Call& call) {
  const oct_operation& op = call.operation;
  const oct_matrix& m = op.operand[0];
  auto* partial = data<double>(call, kWorkspace);
  const std::int64_t per_row = divide_up(m.columns, kChunk);
  if (m.rows * per_row >= std::int64_t(1) << 31)
    throw std::invalid_argument("more than 2^34 elements in one operation");
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    launch(call, partial_squares<T>, dim3(blocks_of(m)), 512, 0, rows<const T>(call, 0),
           std::uint32_t(per_row), std::uint32_t(m.rows * per_row), m.columns, partial);
  });
  launch(call, finish_squares, dim3(1), 1024, 0, partial, int(blocks_of(m)), op.f[0] == 0 ? 1. : op.f[0],
         data<double>(call, 1), op.i[0] == 1);
}

void clip(const Call& call) {
  launch(call, clip_kernel, dim3(1), 1, 0, data<const double>(call, 0), data<const double>(call, 1),
         data<double>(call, 2), call.operation.f[0]);
}

std::int64_t adamw_workspace(const oct_operation&) {
  return sizeof(Factors);
}

void adamw(const Call& call) {
  const oct_operation& op = call.operation;
  auto* factors = data<Factors>(call, kWorkspace);
  launch(call, factors_kernel, dim3(1), 1, 0, data<const double>(call, 1), data<const double>(call, 2),
         Settings{op.f[0], op.f[1], op.f[2], op.f[3]}, factors);
  by_type(call, 0, [&](auto gradient) {
    by_type(call, 6, [&](auto weight) {
      using G = decltype(gradient);
      using W = decltype(weight);
      map(call, op.operand[0].rows, op.operand[0].columns,
          AdamW<G, W>{factors, rows<const G>(call, 0), rows<float>(call, 3), rows<float>(call, 4),
                      rows<float>(call, 5), rows<W>(call, 6)});
    });
  });
}

}  // namespace octachoron::cuda
