/// Choice of the kernel of a description.
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/fp8.h"

namespace octachoron::cpu::OCT_CPU_ISA {

Kernel find_kernel(const oct_operation& operation) {
  switch (operation.op) {
    case OCT_FILL:
      return fill_kernel(operation);
    case OCT_COPY:
      return copy_kernel(operation);
    case OCT_ADD:
      return add_kernel(operation);
    case OCT_GEMM:
      return is_narrow(operation.operand[0].dtype) ? scaled_result_kernel(operation) : gemm_kernel(operation);
    case OCT_COLUMN_SUM:
      return column_sum_kernel(operation);
    case OCT_NORM:
      return norm_kernel(operation);
    case OCT_NORM_BACKWARD:
      return norm_backward_kernel(operation);
    case OCT_GELU:
      return gelu_kernel(operation);
    case OCT_GELU_BACKWARD:
      return gelu_backward_kernel(operation);
    case OCT_SWIGLU:
      return swiglu_kernel(operation);
    case OCT_SWIGLU_BACKWARD:
      return swiglu_backward_kernel(operation);
    case OCT_ROPE:
      return rope_kernel(operation);
    case OCT_ATTENTION:
      return attention_kernel(operation);
    case OCT_ATTENTION_BACKWARD:
      return attention_backward_kernel(operation);
    case OCT_EMBEDDING:
      return embedding_kernel(operation);
    case OCT_EMBEDDING_BACKWARD:
      return embedding_backward_kernel(operation);
    case OCT_POSITION:
      return position_kernel(operation);
    case OCT_POSITION_BACKWARD:
      return position_backward_kernel(operation);
    case OCT_LOSS_STATISTICS:
      return loss_statistics_kernel(operation);
    case OCT_LOSS:
      return loss_kernel(operation);
    case OCT_SUM_OF_SQUARES:
      return sum_of_squares_kernel(operation);
    case OCT_CLIP:
      return clip_kernel(operation);
    case OCT_ADAMW:
      return adamw_kernel(operation);
    case OCT_QUANTIZE:
      return quantize_kernel(operation);
    case OCT_AMAX:
      return amax_kernel(operation);
    case OCT_UPDATE_SCALE:
      return update_scale_kernel(operation);
    case OCT_CURRENT_SCALE:
      return current_scale_kernel(operation);
    case OCT_TRANSPOSE:
      return transpose_kernel(operation);
    default:
      return nullptr;
  }
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
