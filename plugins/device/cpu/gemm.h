#pragma once
/// Matrix products by oneDNN, where its instructions make it the faster choice.
#include <mutex>
#include <string>
#include <vector>

#include "plugins/device/common/check.h"
#include "plugins/device/cpu/onednn.h"
#include "plugins/device/cpu/prepared.h"

namespace octachoron::cpu {

/// Whether oneDNN computes a checked product, or the own kernel. BF16 operands want a processor that
/// multiplies them (AVX512_BF16, AMX); for FP32 ones, cut into blocks of one thread each, the own kernel is as fast on
/// AVX2 and faster on AVX512 (core/docs/performance-cpu.md). What
/// oneDNN has no primitive for, and empty products, are left to the own kernel, which widens any type as it
/// packs. \param isa what oneDNN may use, see onednn_isa()
bool uses_onednn(const oct_operation& operation, const std::string& isa);

/// How a product is cut. The result is cut into blocks that depend on the shape only, and one thread computes
/// a block: so bits do not depend on the number of threads, which oneDNN alone does not promise (it may split
/// the depth).
struct GemmPlan {
  GemmPlan(const oct_operation& operation, int threads);

  device_common::GemmShape shape;
  std::int64_t block_rows, block_columns;
  std::int64_t scratch_bytes = 0;  ///< of one thread
  std::int64_t bias_offset, workspace;
  bool widen_bias;              ///< the bias is not FP32: widened in the workspace
  std::vector<Matmul> matmuls;  ///< by 2 * (last block of rows) + (last block of columns)

  std::int64_t blocks_down() const { return (shape.m + block_rows - 1) / block_rows; }
  std::int64_t blocks_across() const { return (shape.n + block_columns - 1) / block_columns; }
};

class GemmOperation : public Prepared {
 public:
  GemmOperation(const oct_operation& operation, FindKernel find, int threads);
  void run(void* const* pointers) override;

 private:
  const float* bias(void* const* pointers) const;
  void block(void* const* pointers, const float* bias, std::int64_t index, std::int64_t thread);

  oct_operation operation_;
  int threads_;
  GemmPlan plan_;
  oct_operation widen_{};
  Kernel widen_kernel_ = nullptr;
  std::mutex mutex_;  // an id may be enqueued on several lanes, but its handles carry one execution
  std::vector<std::vector<Matmul::Arguments>> arguments_;  // by thread, by variant
};

}  // namespace octachoron::cpu
