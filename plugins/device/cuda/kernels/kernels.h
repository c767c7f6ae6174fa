#pragma once
/// How the device calls its kernels: one host function per operation, which launches kernels on a stream and
/// nothing else. No function here allocates or synchronises.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/plugin/operations.h"

namespace octachoron::cuda {

/// Places in an array of pointers: operand k at k whatever the description left out, then the workspace.
inline constexpr int kWorkspace = OCT_MAX_OPERANDS;
inline constexpr int kPointers = OCT_MAX_OPERANDS + 1;

/// One execution of one operation.
struct Call {
  const oct_operation& operation;
  void* const* pointers;  ///< kPointers of them
  cudaStream_t stream;
  /// Load the kernels instead of launching them. A kernel that is loaded at its first launch may wait for one
  /// that spins on a flag, which may wait for it.
  bool load;
  std::uint64_t* error;  ///< a word of mapped host memory, see BadTarget
  const double* table;   ///< of OCT_ROPE: device memory laid out as rope_table() says; otherwise null
};

using Kernel = void (*)(const Call&);

void fill(const Call&);
void copy(const Call&);
void add(const Call&);
void transpose(const Call&);
void column_sum(const Call&);
void norm(const Call&);
void norm_backward(const Call&);
void gelu(const Call&);
void gelu_backward(const Call&);
void swiglu(const Call&);
void swiglu_backward(const Call&);
void rope(const Call&);
void embedding(const Call&);
void embedding_backward(const Call&);
void position(const Call&);
void position_backward(const Call&);
void loss_statistics(const Call&);
void loss(const Call&);
void sum_of_squares(const Call&);
void clip(const Call&);
void adamw(const Call&);
void attention(const Call&);
/// Workspace: F32 [tokens, heads].
void attention_backward(const Call&);
/// What cuDNN reads in an OCT_ATTENTION_BACKWARD: its lse, by heads, at the beginning of its workspace.
void lse_by_heads(const Call&);
void quantize(const Call&);
void amax(const Call&);
void update_scale(const Call&);
void current_scale(const Call&);

/// Workspace of a checked description, in bytes; those without a function need none.
std::int64_t column_sum_workspace(const oct_operation&);
std::int64_t norm_backward_workspace(const oct_operation&);
std::int64_t embedding_backward_workspace(const oct_operation&);
std::int64_t loss_workspace(const oct_operation&);
std::int64_t sum_of_squares_workspace(const oct_operation&);
std::int64_t adamw_workspace(const oct_operation&);

/// A copy of FP8 codes as the numbers that they stand for.
void decode_fp8(const Call&);
/// What follows a matrix product that cuBLASLt cannot write as it should be: operand 5 = product (+ bias) (+
/// itself). \param product F32 [m,n] without gaps, or null for a product of depth 0
void gemm_finish(const Call&, const float* product);
/// The whole of a GEMM but in FP8, by a plain kernel: for operands that cuBLASLt does not take.
void gemm_simple(const Call&);
/// The reciprocals of the scales of operands 2 and 3, 256 bytes apart.
void invert_scales(const Call&, float* inverses);
/// Numbers of about unit size for measurements of matrix products.
void fill_noise(void* memory, std::int64_t bytes, cudaStream_t stream);

/// The lane's clock to `seconds`, which the device can address.
void write_time(double* seconds, cudaStream_t stream, bool load);
/// Between any two memories that the device can address.
void copy_bytes(void* to, const void* from, std::size_t bytes, cudaStream_t stream, bool load);
void signal_flag(std::uint32_t* flag, const std::uint32_t* epoch, cudaStream_t stream, bool load);
void await_flag(const std::uint32_t* flag, const std::uint32_t* epoch, cudaStream_t stream, bool load);

/// Positions per row of the fine table of the rotary embedding: angle(p) = coarse(p / step) + fine(p mod
/// step). Rows of D/2 cosines and D/2 sines, fine ones first.
inline constexpr std::int64_t kRopeStep = 64;

/// A target that is no id of the vocabulary, as a word: written by whichever row, 0 for none.
struct BadTarget {
  std::int32_t target;
  std::uint32_t token;
};
constexpr std::uint64_t encode(BadTarget bad) {
  return std::uint64_t(1) << 63 | std::uint64_t(bad.token) << 32 | std::uint32_t(bad.target);
}
constexpr BadTarget decode(std::uint64_t word) {
  return {std::int32_t(std::uint32_t(word)), std::uint32_t(word >> 32) & 0x7fffffffu};
}

}  // namespace octachoron::cuda
