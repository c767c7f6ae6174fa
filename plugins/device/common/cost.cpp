/// Cost of checked descriptions.
#include "core/plugin/dtype.h"
#include "core/plugin/fused_cast.h"
#include "plugins/device/common/check.h"

namespace octachoron::device_common {
namespace {

double elements(const oct_matrix& m) {
  return double(m.rows) * double(m.columns);
}

double traffic(const oct_operation& op) {
  double bytes = 0;
  for (int k = 0; k < op.operands; ++k)
    bytes += elements(op.operand[k]) * double(size_of(DType(op.operand[k].dtype)));
  return bytes;
}

/// Multiplications and additions of the products of a causal attention: `products` of them over half the
/// scores.
double attention_flops(const oct_operation& op, double products) {
  return products * double(op.operand[0].rows) * double(op.i[0] + 1) * double(op.i[1]) * double(op.i[3]);
}

}  // namespace

Cost cost(const oct_operation& op) {
  const oct_matrix* m = op.operand;
  Cost c = {0, traffic(op)};
  switch (op.op) {
    case OCT_ADD:
      c.flops = elements(m[0]) * (m[2].rows > 0 ? 2 : 1);
      break;
    case OCT_GEMM: {
      const GemmShape s = gemm_shape(op);
      c.flops = 2. * double(s.m) * double(s.n) * double(s.k);
      if (op.i[2] == 1) c.bytes += elements(m[5]) * double(size_of(DType(m[5].dtype)));
      break;
    }
    case OCT_COLUMN_SUM:
      c.flops = elements(m[0]);
      break;
    case OCT_NORM:
      c.flops = 8 * elements(m[0]);
      break;
    case OCT_NORM_BACKWARD:
      c.flops = 16 * elements(m[1]);
      break;
    case OCT_GELU:
      c.flops = 20 * elements(m[0]);
      break;
    case OCT_SWIGLU:
      c.flops = 10 * elements(m[0]);
      break;
    case OCT_GELU_BACKWARD:
    case OCT_SWIGLU_BACKWARD:
      c.flops = 25 * elements(m[1]);
      break;
    case OCT_ROPE:
      c.flops = 3 * double(m[0].rows) * double((op.i[1] + op.i[2]) * op.i[3]);
      c.bytes *= 2;
      break;
    case OCT_ATTENTION:
      c.flops = attention_flops(op, 2);
      break;
    case OCT_ATTENTION_BACKWARD:
      c.flops = attention_flops(op, 5);
      break;
    case OCT_EMBEDDING:
      c.bytes = 2 * elements(m[2]) * double(size_of(DType(m[2].dtype)));
      break;
    case OCT_EMBEDDING_BACKWARD:
      c.flops = elements(m[1]);
      break;
    case OCT_POSITION:
      c.flops = elements(m[0]);
      break;
    case OCT_POSITION_BACKWARD:
      c.flops = elements(m[0]);
      break;
    case OCT_LOSS_STATISTICS:
    case OCT_LOSS:
      c.flops = 15 * elements(m[0]);
      break;
    case OCT_SUM_OF_SQUARES:
      c.flops = 2 * elements(m[0]);
      break;
    case OCT_ADAMW:
      c.flops = 15 * elements(m[0]);
      c.bytes += 3 * elements(m[3]) * double(size_of(DType(m[3].dtype)));
      break;
    case OCT_QUANTIZE:
      c.flops = 3 * elements(m[0]);
      break;
    case OCT_AMAX:
      c.flops = elements(m[0]);
      break;
    case OCT_UPDATE_SCALE:
      c.flops = 2 * elements(m[1]);
      c.bytes *= 2;
      break;
    default:
      break;
  }
  if (const FusedCast cast = fused_cast(op.op); cast.is_in(op.operands)) c.flops += 3 * elements(m[cast.row()]);
  return c;
}

}  // namespace octachoron::device_common
