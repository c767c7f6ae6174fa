#pragma once
/// The groups of kernels, one source each. A function gets a checked description and returns its kernel.
#include "plugins/device/cpu/kernels/kernels.h"

namespace octachoron::cpu::OCT_CPU_ISA {

Kernel fill_kernel(const oct_operation&);
Kernel copy_kernel(const oct_operation&);
Kernel add_kernel(const oct_operation&);
Kernel gemm_kernel(const oct_operation&);
Kernel column_sum_kernel(const oct_operation&);
Kernel norm_kernel(const oct_operation&);
Kernel norm_backward_kernel(const oct_operation&);
Kernel gelu_kernel(const oct_operation&);
Kernel gelu_backward_kernel(const oct_operation&);
Kernel swiglu_kernel(const oct_operation&);
Kernel swiglu_backward_kernel(const oct_operation&);
Kernel rope_kernel(const oct_operation&);
Kernel attention_kernel(const oct_operation&);
Kernel attention_backward_kernel(const oct_operation&);
Kernel embedding_kernel(const oct_operation&);
Kernel embedding_backward_kernel(const oct_operation&);
Kernel position_kernel(const oct_operation&);
Kernel position_backward_kernel(const oct_operation&);
Kernel loss_statistics_kernel(const oct_operation&);
Kernel loss_kernel(const oct_operation&);
Kernel sum_of_squares_kernel(const oct_operation&);
Kernel clip_kernel(const oct_operation&);
Kernel adamw_kernel(const oct_operation&);
Kernel quantize_kernel(const oct_operation&);
Kernel amax_kernel(const oct_operation&);
Kernel update_scale_kernel(const oct_operation&);
Kernel current_scale_kernel(const oct_operation&);
Kernel transpose_kernel(const oct_operation&);
/// Of a GEMM of FP8 operands: makes d of the bare product [m,n], FP32 and dense, in the place of the workspace.
Kernel scaled_result_kernel(const oct_operation&);

}  // namespace octachoron::cpu::OCT_CPU_ISA
