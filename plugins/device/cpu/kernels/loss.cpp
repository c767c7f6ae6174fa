/// Cross-entropy over a vocabulary that may be split over ranks.
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/support.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

/// Columns of this part whose id is below the vocabulary.
inline std::int64_t existing_columns(const Call& call, std::int64_t columns) {
  const std::int64_t left = call.operation.i[1] - call.operation.i[0];
  return left < 0 ? 0 : left < columns ? left : columns;
}

template <class T>
Wide<T> row_maximum(const T* x, std::int64_t n) {
  using W = Wide<T>;
  W maximum = W(-__builtin_inf());
  std::int64_t c = 0;
  if (n >= 8) {
    V8<W> m = load8(x);
    for (c = 8; c + 8 <= n; c += 8) {
      const V8<W> v = load8(x + c);
      m = larger8(v, m);
    }
    for (int lane = 0; lane < 8; ++lane) maximum = m[lane] > maximum ? m[lane] : maximum;
  }
  for (; c < n; ++c) maximum = wide(x[c]) > maximum ? wide(x[c]) : maximum;
  return maximum;
}

template <class T>
void loss_statistics(const Call& call) {
  using W = Wide<T>;
  const auto logits = operand<const T>(call, 0);
  const auto* targets = static_cast<const std::int32_t*>(call.pointers[1]);
  const auto statistics = operand<W>(call, 2);
  const std::int64_t first = call.operation.i[0], n = existing_columns(call, logits.columns);
  parallel_for(call.threads, logits.rows, 10 * logits.columns, [=](std::int64_t t) {
    const T* l = logits.row(t);
    const W m = row_maximum(l, n);
    const double sum = sum_double(
        n, [=](std::int64_t c) { return exponential(V8<W>(load8(l + c) - m)); },
        [=](std::int64_t c) { return exponential(W(wide(l[c]) - m)); });
    const std::int64_t target = targets[t] - first;
    W* out = statistics.row(t);
    out[0] = m;
    out[1] = W(sum);
    out[2] = targets[t] >= 0 && target >= 0 && target < n ? wide(l[target]) : W(0);
  });
}

/// The softmax denominator of a row from the statistics of all parts.
struct RowTotal {
  double maximum, sum, target;
};
template <class W>
RowTotal combine(const Matrix<const W>& statistics, std::int64_t tokens, std::int64_t parts, std::int64_t t) {
  RowTotal total = {-__builtin_inf(), 0, 0};
  for (std::int64_t p = 0; p < parts; ++p) {
    const double m = statistics.row(p * tokens + t)[0];
    total.maximum = m > total.maximum ? m : total.maximum;
  }
  for (std::int64_t p = 0; p < parts; ++p) {
    const W* part = statistics.row(p * tokens + t);
    // A part without columns has maximum -infinity and sum 0; any other term is taken as it is, NaN too.
    if (double(part[1]) != 0) total.sum += double(part[1]) * ::exp(double(part[0]) - total.maximum);
    total.target += double(part[2]);
  }
  return total;
}

template <class T>
void write_gradient(T* to, const T* l, std::int64_t n, std::int64_t columns, const RowTotal& total,
                    double scale) {
  using W = Wide<T>;
  const W m = W(total.maximum), factor = W(scale / total.sum);
#pragma omp simd
  for (std::int64_t c = 0; c < n; ++c) store(to + c, exponential(W(wide(l[c]) - m)) * factor);
  for (std::int64_t c = n; c < columns; ++c) store(to + c, W(0));
}

template <class T>
void loss(const Call& call) {
  using W = Wide<T>;
  const auto logits = operand<const T>(call, 0);
  const auto* targets = static_cast<const std::int32_t*>(call.pointers[1]);
  const auto statistics = operand<const W>(call, 2);
  const double inverse_tokens = static_cast<const double*>(call.pointers[3])[OCT_SCALAR_INVERSE_TOKENS];
  const auto dlogits = operand<T>(call, 4);
  auto* row_loss = static_cast<double*>(call.pointers[kWorkspace]);
  const std::int64_t first = call.operation.i[0], parts = call.operation.i[2];
  const std::int64_t n = existing_columns(call, logits.columns);
  parallel_for(call.threads, logits.rows, 8 * logits.columns, [=](std::int64_t t) {
    row_loss[t] = 0;
    if (targets[t] < 0) {
      if (dlogits)
        std::memset(static_cast<void*>(dlogits.row(t)), 0, std::size_t(logits.columns) * sizeof(T));
      return;
    }
    const RowTotal total = combine<W>(statistics, logits.rows, parts, t);
    row_loss[t] = ::log(total.sum) + (total.maximum - total.target);
    if (!dlogits) return;
    const std::int64_t target = targets[t] - first;
    const bool here = target >= 0 && target < n;
    const W logit = here ? wide(logits.row(t)[target]) : W(0);  // dlogits may overwrite it
    write_gradient(dlogits.row(t), logits.row(t), n, logits.columns, total, inverse_tokens);
    if (here) {
      const double probability = ::exp(double(logit) - total.maximum) / total.sum;
      store(dlogits.row(t) + target, W((probability - 1) * inverse_tokens));
    }
  });
  double sum = 0;
  for (std::int64_t t = 0; t < logits.rows; ++t) sum += row_loss[t];
  *static_cast<double*>(call.pointers[5]) += sum;
}

}  // namespace

Kernel loss_statistics_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype,
                 [](auto tag) -> Kernel { return loss_statistics<decltype(tag)>; });
}
Kernel loss_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype, [](auto tag) -> Kernel { return loss<decltype(tag)>; });
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
