/// The end of a product of FP8 operands: scales, bias, addition to the result.
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/support.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

template <class B, class D, bool Accumulate>
void scaled_result(const Call& call) {
  const auto d = operand<D>(call, 5);
  const auto bias = operand<const B>(call, 4);
  const auto* product = static_cast<const float*>(call.pointers[kWorkspace]);
  // One after the other: the product of two inverses may be too small for FP32.
  const float a = 1.f / *static_cast<const float*>(call.pointers[2]);
  const float b = 1.f / *static_cast<const float*>(call.pointers[3]);
  for_pieces(call.threads, d.rows, d.columns, 1, [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
    const float* from = product + r * d.columns;
    D* to = d.row(r);
#pragma omp simd
    for (std::int64_t c = begin; c < end; ++c) {
      float value = from[c] * a * b;
      if (bias) value += wide(bias.data[c]);
      store(to + c, Accumulate ? wide(to[c]) + value : value);
    }
  });
}

template <class B, class D>
Kernel choose(const oct_operation& operation) {
  return operation.i[2] == 1 ? scaled_result<B, D, true> : scaled_result<B, D, false>;
}

}  // namespace

Kernel scaled_result_kernel(const oct_operation& operation) {
  const bool narrow = operation.operand[5].dtype == OCT_BF16;
  if (operation.operand[4].dtype == OCT_BF16)
    return narrow ? choose<Bf16, Bf16>(operation) : choose<Bf16, float>(operation);
  return narrow ? choose<float, Bf16>(operation) : choose<float, float>(operation);
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
