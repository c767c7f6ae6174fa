#include "plugins/device/cpu/workspace.h"

#include "plugins/device/common/check.h"
#include "plugins/device/cpu/kernels/layout.h"

namespace octachoron::cpu {
namespace {

std::int64_t wide_bytes(const oct_matrix& m) {
  return m.dtype == OCT_F64 ? 8 : 4;
}

}  // namespace

std::int64_t workspace_bytes(const oct_operation& op, int threads) {
  const oct_matrix* m = op.operand;
  switch (op.op) {
    case OCT_GEMM: {
      const device_common::GemmShape s = device_common::gemm_shape(op);
      const bool convert = m[5].dtype != (m[0].dtype == OCT_F64 ? OCT_F64 : OCT_F32);
      return gemm_workspace(s.m, s.n, s.k, convert) * wide_bytes(m[0]);
    }
    case OCT_ATTENTION:
      return threads * attention_scratch(op.i[3]) * wide_bytes(m[0]);
    case OCT_ATTENTION_BACKWARD:
      return (m[0].rows * op.i[1] * (1 + op.i[3]) + threads * attention_backward_scratch(op.i[3])) *
             wide_bytes(m[0]);
    case OCT_EMBEDDING_BACKWARD:
      return 16 * m[1].rows;
    case OCT_LOSS:
      return 8 * m[0].rows;
    case OCT_SUM_OF_SQUARES:
      return 8 * m[0].rows * ((m[0].columns + kSumChunk - 1) / kSumChunk);
    default:
      return 0;
  }
}

}  // namespace octachoron::cpu
