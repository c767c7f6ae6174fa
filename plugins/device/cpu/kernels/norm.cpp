/// LayerNorm and RMSNorm, and sums over columns.
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/support.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

/// (mean, variance) of a row; RMSNorm: (0, mean square).
template <class T>
void moments(const T* x, std::int64_t n, bool rms, double* mean, double* variance) {
  *mean =
      rms ? 0
          : sum_double(
                n, [=](std::int64_t i) { return load8(x + i); }, [=](std::int64_t i) { return wide(x[i]); }) /
                double(n);
  const double m = *mean;
  const double squares = sum_double(
      n,
      [=](std::int64_t i) {
        const D8 d = to_double(load8(x + i)) - m;
        return d * d;
      },
      [=](std::int64_t i) {
        const double d = double(wide(x[i])) - m;
        return d * d;
      });
  *variance = squares / double(n);
}

template <class T>
void norm(const Call& call) {
  using W = Wide<T>;
  const auto x = operand<const T>(call, 0);
  const auto weight = operand<const T>(call, 1), bias = operand<const T>(call, 2);
  const auto y = operand<T>(call, 3);
  const auto statistics = operand<W>(call, 4);
  const double epsilon = call.operation.f[0];
  const bool rms = call.operation.i[0] == 1;
  parallel_for(call.threads, x.rows, 6 * x.columns, [=](std::int64_t r) {
    const T* from = x.row(r);
    T* to = y.row(r);
    double exact_mean, variance;
    moments(from, x.columns, rms, &exact_mean, &variance);
    // What is stored is what is used, so that the backward pass differentiates this very function.
    const W mean = W(exact_mean), inverse = W(1 / __builtin_sqrt(variance + epsilon));
    statistics.row(r)[0] = mean;
    statistics.row(r)[1] = inverse;
    if (bias) {
#pragma omp simd
      for (std::int64_t c = 0; c < x.columns; ++c)
        store(to + c, (wide(from[c]) - mean) * inverse * wide(weight.data[c]) + wide(bias.data[c]));
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < x.columns; ++c)
        store(to + c, (wide(from[c]) - mean) * inverse * wide(weight.data[c]));
    }
  });
}

template <class T>
struct NormRow {
  const T *dy, *x, *weight;
  Wide<T> mean, inverse;
};

/// The means over the row of g = dy * weight and of g * normalised x.
template <class T>
void backward_means(const NormRow<T>& row, std::int64_t n, double* mean_g, double* mean_gx) {
  using W = Wide<T>;
  D8 sum_g = {}, sum_gx = {};
  double tail_g = 0, tail_gx = 0;
  std::int64_t c = 0;
  for (; c + 8 <= n; c += 8) {
    const V8<W> g = load8(row.dy + c) * load8(row.weight + c);
    const V8<W> normal = (load8(row.x + c) - row.mean) * row.inverse;
    sum_g += to_double(g);
    sum_gx += to_double(V8<W>(g * normal));
  }
  for (; c < n; ++c) {
    const W g = wide(row.dy[c]) * wide(row.weight[c]);
    tail_g += double(g);
    tail_gx += double(g * ((wide(row.x[c]) - row.mean) * row.inverse));
  }
  *mean_g = (sum_lanes(sum_g) + tail_g) / double(n);
  *mean_gx = (sum_lanes(sum_gx) + tail_gx) / double(n);
}

template <class T, class G>
void norm_parameter_gradients(const Call& call) {
  using W = Wide<T>;
  const auto dy = operand<const T>(call, 0), x = operand<const T>(call, 1);
  const auto statistics = operand<const W>(call, 3);
  const auto dweight = operand<G>(call, 6), dbias = operand<G>(call, 7);
  const bool accumulate = call.operation.i[1] == 1;
  const std::int64_t blocks = (x.columns + kColumns - 1) / kColumns;
  parallel_for(call.threads, blocks, 4 * x.rows * kColumns, [=](std::int64_t block) {
    const std::int64_t begin = block * kColumns;
    const std::int64_t n = begin + kColumns < x.columns ? kColumns : x.columns - begin;
    ColumnSums weights = {}, biases = {};
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const T *gradient = dy.row(r) + begin, *from = x.row(r) + begin;
      const W mean = statistics.row(r)[0], inverse = statistics.row(r)[1];
#pragma omp simd
      for (std::int64_t c = 0; c < n; ++c) {
        const W g = wide(gradient[c]);
        weights.sum[c] += double(g * ((wide(from[c]) - mean) * inverse));
        biases.sum[c] += double(g);
      }
    }
    store_sums(dweight.data + begin, weights.sum, n, accumulate);
    if (dbias) store_sums(dbias.data + begin, biases.sum, n, accumulate);
  });
}

template <class T, class G>
void norm_backward(const Call& call) {
  using W = Wide<T>;
  const auto dy = operand<const T>(call, 0), x = operand<const T>(call, 1),
             weight = operand<const T>(call, 2);
  const auto statistics = operand<const W>(call, 3);
  const auto residual = operand<const T>(call, 4);
  const auto dx = operand<T>(call, 5);
  const bool rms = call.operation.i[0] == 1;
  norm_parameter_gradients<T, G>(call);  // first: dx may overwrite dy
  parallel_for(call.threads, x.rows, 8 * x.columns, [=](std::int64_t r) {
    const NormRow<T> row = {dy.row(r), x.row(r), weight.data, statistics.row(r)[0], statistics.row(r)[1]};
    double mean_g, mean_gx;
    backward_means(row, x.columns, &mean_g, &mean_gx);
    const W shift = rms ? W(0) : W(mean_g), slope = W(mean_gx);
    const T* add = residual ? residual.row(r) : nullptr;
    T* to = dx.row(r);
#pragma omp simd
    for (std::int64_t c = 0; c < x.columns; ++c) {
      const W normal = (wide(row.x[c]) - row.mean) * row.inverse;
      const W gradient = row.inverse * (wide(row.dy[c]) * wide(row.weight[c]) - shift - normal * slope);
      store(to + c, add != nullptr ? gradient + wide(add[c]) : gradient);
    }
  });
}

template <class T, class G>
void column_sum(const Call& call) {
  const auto x = operand<const T>(call, 0);
  const auto sum = operand<G>(call, 1);
  const bool accumulate = call.operation.i[0] == 1;
  const std::int64_t blocks = (x.columns + kColumns - 1) / kColumns;
  parallel_for(call.threads, blocks, x.rows * kColumns, [=](std::int64_t block) {
    const std::int64_t begin = block * kColumns;
    const std::int64_t n = begin + kColumns < x.columns ? kColumns : x.columns - begin;
    ColumnSums sums = {};
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const T* from = x.row(r) + begin;
#pragma omp simd
      for (std::int64_t c = 0; c < n; ++c) sums.sum[c] += double(wide(from[c]));
    }
    store_sums(sum.data + begin, sums.sum, n, accumulate);
  });
}

}  // namespace

Kernel norm_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype, [](auto tag) -> Kernel { return norm<decltype(tag)>; });
}

Kernel norm_backward_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype, [&](auto tag) -> Kernel {
    using T = decltype(tag);
    return by_gradient_type<T>(operation.operand[6].dtype,
                               [](auto gradient) -> Kernel { return norm_backward<T, decltype(gradient)>; });
  });
}

Kernel column_sum_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype, [&](auto tag) -> Kernel {
    using T = decltype(tag);
    return by_gradient_type<T>(operation.operand[1].dtype,
                               [](auto gradient) -> Kernel { return column_sum<T, decltype(gradient)>; });
  });
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
