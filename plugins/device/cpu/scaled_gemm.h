#pragma once
/// Products of FP8 operands: both are expanded to FP32, exactly, and multiplied as those; then come the
/// scales.
#include <cstdint>
#include <memory>

#include "plugins/device/cpu/prepared.h"

namespace octachoron::cpu {

/// The product in BF16 or FP32 and where its operands, its result and its own workspace lie in the workspace.
struct ScaledGemmPlan {
  ScaledGemmPlan(const oct_operation& operation, int threads);

  oct_operation product;
  std::int64_t a_offset, b_offset, product_offset, scratch_offset, workspace;
};

class ScaledGemm : public Prepared {
 public:
  ScaledGemm(const oct_operation& operation, FindKernel find, int threads);
  void run(void* const* pointers) override;

 private:
  oct_operation operation_;
  ScaledGemmPlan plan_;
  oct_operation expand_[2];
  Kernel expand_kernel_[2];
  std::unique_ptr<Prepared> product_;
  Kernel finish_;
  int threads_;
};

}  // namespace octachoron::cpu
