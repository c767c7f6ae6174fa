#pragma once
/// Matrix products in FP32 arithmetic by oneDNN: FP32 and BF16 operands, any type of result.
#include <cstdint>
#include <mutex>
#include <vector>

#include "plugins/device/cpu/check.h"
#include "plugins/device/cpu/onednn.h"
#include "plugins/device/cpu/prepared.h"

namespace octachoron::cpu {

/// FP64 operands and empty products are left to the own GEMM.
bool uses_onednn(const oct_operation& operation);

/// How a product is cut and where its parts lie in the workspace. The result is cut into blocks that depend
/// on the shape only, and one thread computes a block: so bits do not depend on the number of threads, which
/// oneDNN alone does not promise (it may split the depth).
struct GemmPlan {
  GemmPlan(const oct_operation& operation, int threads);

  GemmShape shape;
  std::int64_t block_rows, block_columns;
  bool expand_a, expand_b, expand_bias;  ///< BF16 operands, expanded to FP32 in the workspace
  bool convert;  ///< the result is not FP32: computed in the workspace, then converted
  std::int64_t a_offset, b_offset, bias_offset, result_offset, scratch_offset, scratch_bytes, workspace;
  std::vector<Matmul> matmuls;  ///< by 2 * (last block of rows) + (last block of columns)

  std::int64_t blocks_down() const { return (shape.m + block_rows - 1) / block_rows; }
  std::int64_t blocks_across() const { return (shape.n + block_columns - 1) / block_columns; }
};

class GemmOperation : public Prepared {
 public:
  GemmOperation(const oct_operation& operation, FindKernel find, int threads);
  void run(void* const* pointers) override;

 private:
  struct Operands {
    const float *a, *b, *bias;
    float* d;
    char* scratch;
  };
  struct Conversion {
    oct_operation operation{};
    Kernel kernel = nullptr;
  };
  Conversion conversion(FindKernel find, const oct_matrix& from, const oct_matrix& to, bool add) const;
  Operands gather(void* const* pointers) const;
  void block(const Operands& operands, std::int64_t index, std::int64_t thread);
  void products(const Operands& operands);

  oct_operation operation_;
  int threads_;
  GemmPlan plan_;
  std::int64_t pitch_a_, pitch_b_, pitch_d_;
  Conversion a_, b_, bias_, result_;
  std::mutex mutex_;  // an id may be enqueued on several lanes, but its handles carry one execution
  std::vector<std::vector<Matmul::Arguments>> arguments_;  // by thread, by variant
};

}  // namespace octachoron::cpu
