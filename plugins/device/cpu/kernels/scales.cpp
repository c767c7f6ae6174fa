/// Scales of FP8 tensors from the maxima of steps before, or of the tensor itself.
#include "core/plugin/abi.h"
#include "plugins/device/cpu/kernels/fp8.h"
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/support.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

bool is_usable(float amax) {
  return amax > 0 && bits_of(amax) < kInfinity;
}

/// Format maximum * 2^-margin / amax, at most 2^126, whose inverse is still a normal number.
float scale_of(const oct_operation& op, float amax) {
  const float scale = float(op.f[0]) * __builtin_ldexpf(1.f, -int(op.i[0])) / amax;
  return scale < 0x1p126f ? scale : 0x1p126f;
}

float newest(const float* history, std::int64_t n) {
  for (std::int64_t k = 0; k < n; ++k) {
    if (is_usable(history[k])) return history[k];
  }
  return 0;
}
float largest(const float* history, std::int64_t n) {
  float amax = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    if (is_usable(history[k]) && history[k] > amax) amax = history[k];
  }
  return amax;
}

void update_row(const oct_operation& op, std::uint32_t amax, float* history, std::int64_t n, float* scale) {
  const bool known = newest(history, n) > 0;
  if (known && op.i[2] == 1) return;
  if (amax < kInfinity) {
    std::memmove(history + 1, history, std::size_t(n - 1) * sizeof(float));
    history[0] = __builtin_bit_cast(float, amax);
  }
  if (known && op.i[1] == OCT_AMAX_FROZEN) return;
  const float chosen = op.i[1] == OCT_AMAX_MAX ? largest(history, n) : newest(history, n);
  if (chosen > 0) *scale = scale_of(op, chosen);
}

void update_scale(const Call& call) {
  const auto amax = operand<const std::uint32_t>(call, 0);
  const auto history = operand<float>(call, 1), scale = operand<float>(call, 2);
  for (std::int64_t r = 0; r < amax.rows; ++r)
    update_row(call.operation, *amax.row(r), history.row(r), history.columns, scale.row(r));
}

void current_scale(const Call& call) {
  const auto history = operand<const float>(call, 1);
  auto* scale = static_cast<float*>(call.pointers[3]);
  if (history && newest(history.data, history.columns) > 0) {
    *scale = *static_cast<const float*>(call.pointers[2]);
    return;
  }
  const float amax = __builtin_bit_cast(float, *static_cast<const std::uint32_t*>(call.pointers[0]));
  *scale = is_usable(amax) ? scale_of(call.operation, amax) : 1.f;
}

}  // namespace

Kernel update_scale_kernel(const oct_operation&) {
  return update_scale;
}
Kernel current_scale_kernel(const oct_operation&) {
  return current_scale;
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
