#pragma once
/// How attention is computed: by graphs of cuDNN or by the own kernels, in how many launches and how much
/// workspace. Pure: a dry device answers as a real one does.
#include <cstdint>

#include "core/plugin/operations.h"

namespace octachoron::cuda {

struct AttentionPlan {
  bool uses_cudnn;
  /// What one launch of cuDNN treats: sequences, and key heads of each with the query heads that share them.
  /// They divide the operation's.
  std::int64_t sequences, key_heads;
  /// Of the workspace, in bytes: where cuDNN's begins and its size. Before it, in a backward: log-sum-exp by
  /// heads, F32 [sequences of the operation, heads, length], the only layout that cuDNN reads.
  std::int64_t library, library_bytes;
  std::int64_t bytes;  ///< in all
};

/// \param operation checked; OCT_ATTENTION or OCT_ATTENTION_BACKWARD
/// \param has_cudnn whether cuDNN can be asked at all
AttentionPlan plan_attention(const oct_operation& operation, bool has_cudnn);

inline bool is_attention(const oct_operation& operation) {
  return operation.op == OCT_ATTENTION || operation.op == OCT_ATTENTION_BACKWARD;
}

}  // namespace octachoron::cuda
