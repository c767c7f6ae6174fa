#include "plugins/device/cpu/gemm.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "core/plugin/dtype.h"
#include "plugins/device/cpu/kernels/layout.h"
#include "plugins/device/cpu/kernels/thread.h"

namespace octachoron::cpu {

using device_common::gemm_shape;
using device_common::GemmShape;

namespace {

/// Cuts the longer side into pieces of at least 512, up to 16 of them, and goes on only where blocks are
/// huge: short sides make oneDNN take a slower path. Sides are multiples of 48, which suits the register
/// blocks of all instruction sets.
void cut(const GemmShape& s, std::int64_t* rows, std::int64_t* columns) {
  constexpr double small = double(1 << 24), huge = 4. * double(1 << 29);
  const auto work = [&] { return 2. * double(*rows) * double(*columns) * double(s.k); };
  const auto longer = [&]() -> std::int64_t& { return *rows >= *columns ? *rows : *columns; };
  const auto divide = [](std::int64_t side, std::int64_t pieces) {
    return round_up((side + pieces - 1) / pieces, 48);
  };
  *rows = s.m;
  *columns = s.n;
  const std::int64_t pieces = std::min<std::int64_t>(16, longer() / 512);
  if (work() > small && pieces > 1) longer() = divide(longer(), pieces);
  while (work() > huge && longer() > 96) longer() = divide(longer(), 2);
}

bool has(const std::string& isa, std::initializer_list<const char*> features) {
  return std::any_of(features.begin(), features.end(),
                     [&](const char* feature) { return isa.find(feature) != std::string::npos; });
}

char* element(void* base, const oct_matrix& m, std::int64_t row, std::int64_t column) {
  return static_cast<char*>(base) + (row * m.pitch + column) * size_of(DType(m.dtype));
}

}  // namespace

bool uses_onednn(const oct_operation& operation, const std::string& isa) {
  const GemmShape s = gemm_shape(operation);
  if (operation.op != OCT_GEMM || s.m <= 0 || s.n <= 0 || s.k <= 0) return false;
  const std::int32_t from = operation.operand[0].dtype, to = operation.operand[5].dtype;
  if (from != OCT_BF16) return false;
  return (to == OCT_F32 || to == OCT_BF16) && has(isa, {"core_bf16", "core_fp16", "amx", "avx10"});
}

GemmPlan::GemmPlan(const oct_operation& op, int threads) : shape(gemm_shape(op)) {
  const oct_matrix* m = op.operand;
  const bool bias = m[4].rows > 0;
  cut(shape, &block_rows, &block_columns);
  widen_bias = bias && m[4].dtype != OCT_F32;
  for (int variant = 0; variant < 4; ++variant) {
    const std::int64_t rows = variant / 2 == 0 ? block_rows : shape.m - (blocks_down() - 1) * block_rows;
    const std::int64_t columns =
        variant % 2 == 0 ? block_columns : shape.n - (blocks_across() - 1) * block_columns;
    matmuls.emplace_back(Product{rows, columns, shape.k, op.i[0] == 1, op.i[1] == 1, m[0].pitch, m[1].pitch,
                                 m[5].pitch, bias, op.i[2] == 1, m[0].dtype, m[5].dtype});
    scratch_bytes = std::max(scratch_bytes, round_up(std::int64_t(matmuls.back().scratch_bytes()), 256));
  }
  bias_offset = threads * scratch_bytes;
  workspace = bias_offset + (widen_bias ? shape.n * 4 : 0);
}

GemmOperation::GemmOperation(const oct_operation& operation, FindKernel find, int threads)
    : operation_(operation), threads_(threads), plan_(operation, threads) {
  if (plan_.widen_bias) {
    widen_.struct_size = sizeof widen_;
    widen_.op = OCT_COPY;
    widen_.operands = 2;
    widen_.operand[0] = operation.operand[4];
    widen_.operand[1] = {OCT_F32, 0, 1, plan_.shape.n, plan_.shape.n};
    widen_kernel_ = find(widen_);
  }
  arguments_.resize(std::size_t(threads));
  for (auto& of_thread : arguments_) {
    for (const Matmul& matmul : plan_.matmuls) of_thread.emplace_back(matmul);
  }
}

const float* GemmOperation::bias(void* const* pointers) const {
  if (!plan_.widen_bias) return static_cast<const float*>(pointers[4]);
  void* const to = static_cast<char*>(pointers[kWorkspace]) + plan_.bias_offset;
  void* const list[kPointers] = {pointers[4], to};
  widen_kernel_({widen_, list, 1, nullptr});
  return static_cast<const float*>(to);
}

void GemmOperation::block(void* const* pointers, const float* bias, std::int64_t index, std::int64_t thread) {
  const std::int64_t across = plan_.blocks_across();
  const std::int64_t down_index = index / across, across_index = index % across;
  const std::int64_t row = down_index * plan_.block_rows, column = across_index * plan_.block_columns;
  const std::size_t variant =
      (down_index == plan_.blocks_down() - 1 ? 2 : 0) + (across_index == across - 1 ? 1 : 0);
  const oct_matrix* m = operation_.operand;
  const char* a =
      operation_.i[0] == 1 ? element(pointers[0], m[0], 0, row) : element(pointers[0], m[0], row, 0);
  const char* b =
      operation_.i[1] == 1 ? element(pointers[1], m[1], column, 0) : element(pointers[1], m[1], 0, column);
  char* scratch = static_cast<char*>(pointers[kWorkspace]) + thread * plan_.scratch_bytes;
  plan_.matmuls[variant].run(arguments_[std::size_t(thread)][variant], a, b,
                             bias == nullptr ? nullptr : bias + column,
                             element(pointers[5], m[5], row, column), scratch);
}

void GemmOperation::run(void* const* pointers) {
  const std::lock_guard lock(mutex_);
  const float* const bias = this->bias(pointers);
  const std::int64_t blocks = plan_.blocks_down() * plan_.blocks_across();
  if (threads_ < 2 || blocks < 2) {
    for (std::int64_t i = 0; i < blocks; ++i) block(pointers, bias, i, 0);
    return;
  }
  std::atomic<bool> failed = false;
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
  for (std::int64_t i = 0; i < blocks; ++i) {
    try {
      block(pointers, bias, i, thread_number());
    } catch (...) {
      failed = true;  // no exception may leave a parallel region
    }
  }
  if (failed) throw std::runtime_error("oneDNN could not execute a matrix product");
}

}  // namespace octachoron::cpu
