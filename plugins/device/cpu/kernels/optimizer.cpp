/// Gradient norm, clip factor and AdamW.
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/support.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

template <class T>
void sum_of_squares(const Call& call) {
  const auto x = operand<const T>(call, 0);
  auto* sum = static_cast<double*>(call.pointers[1]);
  auto* partial = static_cast<double*>(call.pointers[kWorkspace]);
  const std::int64_t pieces = (x.columns + kSumChunk - 1) / kSumChunk;
  parallel_for(call.threads, x.rows * pieces, x.columns < kSumChunk ? x.columns : kSumChunk,
               [=](std::int64_t i) {
                 const std::int64_t begin = i % pieces * kSumChunk;
                 const std::int64_t n = begin + kSumChunk < x.columns ? kSumChunk : x.columns - begin;
                 const T* from = x.row(i / pieces) + begin;
                 partial[i] = sum_double(
                     n,
                     [=](std::int64_t c) {
                       const D8 v = to_double(load8(from + c));
                       return D8(v * v);
                     },
                     [=](std::int64_t c) {
                       const double v = double(wide(from[c]));
                       return v * v;
                     });
               });
  const double factor = call.operation.f[0] == 0 ? 1 : call.operation.f[0];
  double total = 0;
  for (std::int64_t i = 0; i < x.rows * pieces; ++i) total += partial[i];
  *sum = (call.operation.i[0] == 1 ? *sum : 0) + factor * total;
}

void clip(const Call& call) {
  const auto* control = static_cast<const double*>(call.pointers[0]);
  const auto* scalars = static_cast<const double*>(call.pointers[1]);
  auto* result = static_cast<double*>(call.pointers[2]);
  const double limit = call.operation.f[0];
  const double norm = __builtin_sqrt(control[0] + control[1]);
  const double loss = control[2] * scalars[OCT_SCALAR_INVERSE_TOKENS];
  result[0] = norm;
  result[1] = limit > 0 && norm > limit ? limit / norm : 1;
  result[2] = __builtin_isfinite(norm) && __builtin_isfinite(loss) ? 1 : 0;
  result[3] = loss;
}

/// The factors of one step, rounded once to the type of the masters.
template <class M>
struct AdamW {
  M beta1, rest1, beta2, rest2, epsilon, shrink, rate, inverse_root2, factor;
};
template <class M>
AdamW<M> adamw_factors(const Call& call) {
  const auto* scalars = static_cast<const double*>(call.pointers[1]);
  const double factor = static_cast<const double*>(call.pointers[2])[1];
  const double* f = call.operation.f;
  const double rate = scalars[OCT_SCALAR_LEARNING_RATE], step = scalars[OCT_SCALAR_STEP];
  const double correction1 = 1 - ::pow(f[0], step), correction2 = 1 - ::pow(f[1], step);
  return {M(f[0]),
          M(1 - f[0]),
          M(f[1]),
          M(1 - f[1]),
          M(f[2]),
          M(1 - rate * f[3]),
          M(rate / correction1),
          M(1 / __builtin_sqrt(correction2)),
          M(factor)};
}

inline float square_root(float v) {
  return __builtin_sqrtf(v);
}
inline double square_root(double v) {
  return __builtin_sqrt(v);
}

template <class G, class M>
void update(const AdamW<M>& a, std::int64_t n, const G* gradient, M* master, M* average, M* square) {
#pragma omp simd
  for (std::int64_t c = 0; c < n; ++c) {
    const M g = M(wide(gradient[c])) * a.factor;
    const M m = a.beta1 * average[c] + a.rest1 * g;
    const M v = a.beta2 * square[c] + a.rest2 * (g * g);
    average[c] = m;
    square[c] = v;
    // With epsilon 0 there is nothing to divide by where gradients were always 0, as in padding, or so small that
    // their squares are: no update.
    const M root = square_root(v) * a.inverse_root2 + a.epsilon;
    master[c] = master[c] * a.shrink - (root == M(0) ? M(0) : a.rate * m / root);
  }
}

template <class M>
void write_weight(const Call& call, std::int64_t r, std::int64_t begin, std::int64_t n, const M* master) {
  const auto convert = [=](auto weight) {
    if (!weight) return;
    auto* to = weight.row(r) + begin;
#pragma omp simd
    for (std::int64_t c = 0; c < n; ++c) store(to + c, master[c]);
  };
  switch (call.operation.operand[6].dtype) {
    case OCT_F64:
      if constexpr (sizeof(M) == 8) convert(operand<double>(call, 6));
      break;
    case OCT_BF16:
      convert(operand<Bf16>(call, 6));
      break;
    default:
      convert(operand<float>(call, 6));
  }
}

template <class G, class M>
void adamw(const Call& call) {
  if (static_cast<const double*>(call.pointers[2])[2] == 0) return;
  const auto gradient = operand<const G>(call, 0);
  const auto master = operand<M>(call, 3), average = operand<M>(call, 4), square = operand<M>(call, 5);
  const AdamW<M> a = adamw_factors<M>(call);
  for_pieces(call.threads, gradient.rows, gradient.columns, 8,
             [=, &call](std::int64_t r, std::int64_t begin, std::int64_t end) {
               const std::int64_t n = end - begin;
               M* values = master.row(r) + begin;
               update(a, n, gradient.row(r) + begin, values, average.row(r) + begin, square.row(r) + begin);
               write_weight(call, r, begin, n, values);
             });
}

}  // namespace

Kernel sum_of_squares_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype,
                 [](auto tag) -> Kernel { return sum_of_squares<decltype(tag)>; });
}
Kernel clip_kernel(const oct_operation&) {
  return clip;
}
Kernel adamw_kernel(const oct_operation& operation) {
  const bool doubles = operation.operand[3].dtype == OCT_F64;
  return by_type(operation.operand[0].dtype, [doubles](auto tag) -> Kernel {
    using G = decltype(tag);
    if (doubles) return adamw<G, double>;
    return adamw<G, float>;
  });
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
