#include "plugins/device/cuda/check.h"

#include <string>

#include "core/plugin/export.h"
#include "core/plugin/fused_cast.h"
#include "plugins/device/common/check.h"

namespace octachoron::cuda {
namespace {

/// Operands that may be doubles here: scalars of the step, and what is only moved.
bool may_be_double(const oct_operation& op, int k) {
  switch (op.op) {
    case OCT_FILL:
      return true;
    case OCT_COPY:
      return op.operand[0].dtype == op.operand[1].dtype;
    case OCT_LOSS:
      return k == 3 || k == 5;
    case OCT_SUM_OF_SQUARES:
      return k == 1;
    case OCT_CLIP:
      return true;
    case OCT_ADAMW:
      return k == 1 || k == 2;
    default:
      return false;
  }
}

void refuse_doubles(const oct_operation& op) {
  for (int k = 0; k < op.operands; ++k) {
    if (op.operand[k].rows == 0 || op.operand[k].dtype != OCT_F64 || may_be_double(op, k)) continue;
    throw plugin::Failure(OCT_UNSUPPORTED, std::string(device_common::operation_name(op)) + ": operand " +
                                               std::to_string(k) + " (" + device_common::operand_name(op, k) +
                                               ") is of type f64, in which this device does not compute");
  }
}

/// What cuBLASLt asks of FP8: a transposition, a format, multiples of 16.
void refuse_other_fp8_products(const oct_operation& op) {
  const oct_matrix &a = op.operand[0], &b = op.operand[1], &d = op.operand[5];
  if (op.i[0] != 0 || op.i[1] != 1) {
    throw plugin::Failure(OCT_UNSUPPORTED,
                          "gemm: in FP8 a is taken as it is and b transposed (i0 = 0, i1 = 1), nothing else");
  }
  if (a.dtype == OCT_E5M2 && b.dtype == OCT_E5M2)
    throw plugin::Failure(OCT_UNSUPPORTED, "gemm: one of two FP8 operands at least must be of type e4m3");
  for (const std::int64_t size : {a.rows, a.columns, b.rows, a.pitch, b.pitch, d.pitch}) {
    if (size % 16 == 0 && size > 0) continue;
    throw plugin::Failure(OCT_UNSUPPORTED, "gemm: in FP8 all sizes and pitches must be multiples of 16; " +
                                               std::to_string(size) + " is not");
  }
}

/// No recipe casts what is stored in FP32.
void refuse_other_fused_casts(const oct_operation& op) {
  if (op.operand[0].dtype == OCT_BF16) return;
  throw plugin::Failure(OCT_UNSUPPORTED,
                        std::string(device_common::operation_name(op)) +
                            ": a cast of its result is an operation of its own on this device");
}

}  // namespace

oct_operation checked(const oct_operation& operation) {
  const oct_operation clean = device_common::checked(operation);
  if (fused_cast(clean.op).is_in(clean.operands)) refuse_other_fused_casts(clean);
  refuse_doubles(clean);
  if (clean.op == OCT_GEMM && device_common::is_fp8(clean.operand[0].dtype)) refuse_other_fp8_products(clean);
  return clean;
}

}  // namespace octachoron::cuda
