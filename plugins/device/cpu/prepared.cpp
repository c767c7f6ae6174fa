#include "plugins/device/cpu/prepared.h"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/plugin/fused_cast.h"
#include "plugins/device/common/check.h"
#include "plugins/device/cpu/fused_cast.h"
#include "plugins/device/cpu/gemm.h"
#include "plugins/device/cpu/kernels/layout.h"
#include "plugins/device/cpu/scaled_gemm.h"
#include "plugins/device/cpu/workspace.h"

namespace octachoron::cpu {

using device_common::is_fp8;

namespace {

/// Rows of D/2 cosines and D/2 sines: kRopeStep fine ones (position p), then coarse ones (first + kRopeStep *
/// c). Two small tables in place of one row for each position.
std::vector<double> rope_table(const oct_operation& op) {
  const std::int64_t half = op.i[3] / 2, coarse = (op.i[0] + kRopeStep - 1) / kRopeStep;
  std::vector<double> table;
  table.reserve(std::size_t((kRopeStep + coarse) * 2 * half));
  const auto row = [&](std::int64_t position) {
    const auto angle = [&](std::int64_t i) {
      return double(position) * std::pow(op.f[0], -2. * double(i) / double(op.i[3]));
    };
    for (std::int64_t i = 0; i < half; ++i) table.push_back(std::cos(angle(i)));
    for (std::int64_t i = 0; i < half; ++i) table.push_back(std::sin(angle(i)));
  };
  for (std::int64_t p = 0; p < kRopeStep; ++p) row(p);
  for (std::int64_t c = 0; c < coarse; ++c) row(op.i[5] + c * kRopeStep);
  return table;
}

/// A target that no rank owns would give a wrong loss in silence.
void check_targets(const oct_operation& op, const std::int32_t* targets) {
  for (std::int64_t t = 0; t < op.operand[0].rows; ++t) {
    if (targets[t] < -1 || targets[t] >= op.i[1]) {
      throw std::runtime_error("loss_statistics: target " + std::to_string(targets[t]) + " of token " +
                               std::to_string(t) + " is not below the vocabulary of " +
                               std::to_string(op.i[1]));
    }
  }
}

class KernelOperation : public Prepared {
 public:
  KernelOperation(const oct_operation& operation, Kernel kernel, int threads)
      : operation_(operation), kernel_(kernel), threads_(threads) {
    if (operation.op == OCT_ROPE) table_ = rope_table(operation);
  }
  void run(void* const* pointers) override {
    if (operation_.op == OCT_LOSS_STATISTICS)
      check_targets(operation_, static_cast<const std::int32_t*>(pointers[1]));
    kernel_({operation_, pointers, threads_, table_.empty() ? nullptr : table_.data()});
  }

 private:
  oct_operation operation_;
  Kernel kernel_;
  int threads_;
  std::vector<double> table_;
};

}  // namespace

std::unique_ptr<Prepared> prepare(const oct_operation& operation, FindKernel find, int threads) {
  if (operation.op == OCT_GEMM && is_fp8(operation.operand[0].dtype)) {
    return std::make_unique<ScaledGemm>(operation, find, threads);
  }
  if (operation.op == OCT_GEMM && uses_onednn(operation, onednn_isa())) {
    return std::make_unique<GemmOperation>(operation, find, threads);
  }
  if (fused_cast(operation.op).is_in(operation.operands)) {
    return std::make_unique<FusedCastOperation>(operation, find, threads);
  }
  const Kernel kernel = find(operation);
  if (kernel == nullptr)
    throw std::logic_error(std::string("no kernel for a checked ") + device_common::operation_name(operation));
  return std::make_unique<KernelOperation>(operation, kernel, threads);
}

std::int64_t planned_workspace(const oct_operation& operation, int threads) {
  if (fused_cast(operation.op).is_in(operation.operands)) return fused_cast_workspace(operation);
  if (operation.op != OCT_GEMM) return workspace_bytes(operation, threads);
  if (is_fp8(operation.operand[0].dtype)) return ScaledGemmPlan(operation, threads).workspace;
  if (uses_onednn(operation, onednn_isa())) return GemmPlan(operation, threads).workspace;
  return workspace_bytes(operation, threads);
}

}  // namespace octachoron::cpu
