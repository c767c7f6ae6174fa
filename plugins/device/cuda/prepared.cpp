#include "plugins/device/cuda/prepared.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "plugins/device/cuda/attention_plan.h"
#include "plugins/device/cuda/gemm.h"
#include "plugins/device/cuda/kernels/kernels.h"
#include "plugins/device/cuda/runtime.h"

namespace octachoron::cuda {
namespace {

struct Entry {
  int op;
  Kernel kernel;
  std::int64_t (*workspace)(const oct_operation&);
};

constexpr Entry kEntries[] = {
    {OCT_FILL, fill, nullptr},
    {OCT_COPY, copy, nullptr},
    {OCT_ADD, add, nullptr},
    {OCT_COLUMN_SUM, column_sum, column_sum_workspace},
    {OCT_QUANTIZE, quantize, nullptr},
    {OCT_NORM, norm, nullptr},
    {OCT_NORM_BACKWARD, norm_backward, norm_backward_workspace},
    {OCT_GELU, gelu, nullptr},
    {OCT_GELU_BACKWARD, gelu_backward, nullptr},
    {OCT_SWIGLU, swiglu, nullptr},
    {OCT_SWIGLU_BACKWARD, swiglu_backward, nullptr},
    {OCT_ROPE, rope, nullptr},
    {OCT_ATTENTION, attention, nullptr},
    {OCT_ATTENTION_BACKWARD, attention_backward, nullptr},
    {OCT_EMBEDDING, embedding, nullptr},
    {OCT_EMBEDDING_BACKWARD, embedding_backward, embedding_backward_workspace},
    {OCT_POSITION, position, nullptr},
    {OCT_POSITION_BACKWARD, position_backward, nullptr},
    {OCT_LOSS_STATISTICS, loss_statistics, nullptr},
    {OCT_LOSS, loss, loss_workspace},
    {OCT_SUM_OF_SQUARES, sum_of_squares, sum_of_squares_workspace},
    {OCT_CLIP, clip, nullptr},
    {OCT_ADAMW, adamw, adamw_workspace},
    {OCT_AMAX, amax, nullptr},
    {OCT_UPDATE_SCALE, update_scale, nullptr},
    {OCT_CURRENT_SCALE, current_scale, nullptr},
    {OCT_TRANSPOSE, transpose, nullptr},
};

const Entry& entry(int op) {
  for (const Entry& e : kEntries) {
    if (e.op == op) return e;
  }
  throw std::logic_error("no kernel for a checked operation");
}

/// See kRopeStep.
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

class KernelOperation : public Prepared {
 public:
  KernelOperation(const oct_operation& operation, std::uint64_t* error)
      : operation_(operation), kernel_(entry(operation.op).kernel), error_(error) {
    if (operation.op == OCT_ROPE) upload(rope_table(operation));
    void* const none[kPointers] = {};
    kernel_({operation_, none, nullptr, true, error_, table_});
  }
  ~KernelOperation() override { (void)cudaFree(table_); }
  KernelOperation(const KernelOperation&) = delete;

  void run(void* const* pointers, cudaStream_t stream) override {
    kernel_({operation_, pointers, stream, false, error_, table_});
  }

 private:
  void upload(const std::vector<double>& table) {
    const std::size_t bytes = table.size() * sizeof(double);
    check(cudaMalloc(reinterpret_cast<void**>(&table_), bytes), "the table of a rotary embedding");
    check(cudaMemcpy(table_, table.data(), bytes, cudaMemcpyHostToDevice), "the table of a rotary embedding");
  }

  oct_operation operation_;
  Kernel kernel_;
  std::uint64_t* error_;
  double* table_ = nullptr;
};

}  // namespace

std::unique_ptr<Prepared> prepare_kernel(const oct_operation& operation, std::uint64_t* error) {
  return std::make_unique<KernelOperation>(operation, error);
}

std::int64_t workspace_bytes(const oct_operation& operation, bool has_cudnn) {
  if (is_attention(operation)) return plan_attention(operation, has_cudnn).bytes;
  if (operation.op == OCT_GEMM) return gemm_layout(operation).bytes;
  const Entry& e = entry(operation.op);
  return e.workspace != nullptr ? e.workspace(operation) : 0;
}

}  // namespace octachoron::cuda
