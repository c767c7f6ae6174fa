#include "plugins/device/cpu/gemm.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "plugins/device/cpu/kernels/layout.h"
#include "plugins/device/cpu/kernels/thread.h"

namespace octachoron::cpu {
namespace {

/// Cuts the longer side into pieces of at least 512, up to 16 of them, and goes on only where blocks are
/// huge: below about 400 rows or columns, or when both sides are cut, oneDNN takes a path of half the speed
/// on AVX2. Sides are multiples of 48, which suits the register blocks of all instruction sets.
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

oct_matrix dense(std::int64_t rows, std::int64_t columns) {
  return {OCT_F32, 0, rows, columns, columns};
}

std::int64_t bytes(const oct_matrix& m) {
  return round_up(m.rows * m.columns * 4, 256);
}

}  // namespace

bool uses_onednn(const oct_operation& operation) {
  const GemmShape s = gemm_shape(operation);
  return has_onednn() && operation.operand[0].dtype != OCT_F64 && s.m > 0 && s.n > 0 && s.k > 0;
}

GemmPlan::GemmPlan(const oct_operation& op, int threads) : shape(gemm_shape(op)) {
  const oct_matrix* m = op.operand;
  const bool bias = m[4].rows > 0;
  cut(shape, &block_rows, &block_columns);
  expand_a = m[0].dtype != OCT_F32;
  expand_b = m[1].dtype != OCT_F32;
  expand_bias = bias && m[4].dtype != OCT_F32;
  convert = m[5].dtype != OCT_F32;
  a_offset = 0;
  b_offset = a_offset + (expand_a ? bytes(m[0]) : 0);
  bias_offset = b_offset + (expand_b ? bytes(m[1]) : 0);
  result_offset = bias_offset + (expand_bias ? bytes(m[4]) : 0);
  scratch_offset = result_offset + (convert ? bytes(m[5]) : 0);
  scratch_bytes = 0;
  for (int variant = 0; variant < 4; ++variant) {
    const std::int64_t rows = variant / 2 == 0 ? block_rows : shape.m - (blocks_down() - 1) * block_rows;
    const std::int64_t columns =
        variant % 2 == 0 ? block_columns : shape.n - (blocks_across() - 1) * block_columns;
    matmuls.emplace_back(Product{rows, columns, shape.k, op.i[0] == 1, op.i[1] == 1,
                                 expand_a ? m[0].columns : m[0].pitch, expand_b ? m[1].columns : m[1].pitch,
                                 convert ? m[5].columns : m[5].pitch, bias, !convert && op.i[2] == 1});
    scratch_bytes = std::max(scratch_bytes, round_up(std::int64_t(matmuls.back().scratch_bytes()), 256));
  }
  workspace = scratch_offset + threads * scratch_bytes;
}

GemmOperation::GemmOperation(const oct_operation& operation, FindKernel find, int threads)
    : operation_(operation),
      threads_(threads),
      plan_(operation, threads),
      pitch_a_(plan_.matmuls[0].product().pitch_a),
      pitch_b_(plan_.matmuls[0].product().pitch_b),
      pitch_d_(plan_.matmuls[0].product().pitch_d) {
  const oct_matrix* m = operation_.operand;
  const auto expanded = [](const oct_matrix& x) { return dense(x.rows, x.columns); };
  if (plan_.expand_a) a_ = conversion(find, m[0], expanded(m[0]), false);
  if (plan_.expand_b) b_ = conversion(find, m[1], expanded(m[1]), false);
  if (plan_.expand_bias) bias_ = conversion(find, m[4], expanded(m[4]), false);
  if (plan_.convert) result_ = conversion(find, expanded(m[5]), m[5], operation_.i[2] == 1);
  arguments_.resize(std::size_t(threads));
  for (auto& of_thread : arguments_) {
    for (const Matmul& matmul : plan_.matmuls) of_thread.emplace_back(matmul);
  }
}

/// to = from, or to = to + from.
GemmOperation::Conversion GemmOperation::conversion(FindKernel find, const oct_matrix& from,
                                                    const oct_matrix& to, bool add) const {
  Conversion c;
  c.operation.struct_size = sizeof(oct_operation);
  c.operation.op = add ? OCT_ADD : OCT_COPY;
  c.operation.operands = add ? 4 : 2;
  c.operation.operand[0] = add ? to : from;
  c.operation.operand[1] = add ? from : to;
  if (add) c.operation.operand[3] = to;
  c.kernel = find(c.operation);
  return c;
}

GemmOperation::Operands GemmOperation::gather(void* const* pointers) const {
  char* workspace = static_cast<char*>(pointers[kWorkspace]);
  const auto expand = [&](const Conversion& c, int k, std::int64_t offset) -> const float* {
    if (c.kernel == nullptr) return static_cast<const float*>(pointers[k]);
    void* const list[kPointers] = {pointers[k], workspace + offset};
    c.kernel({c.operation, list, threads_, nullptr});
    return reinterpret_cast<const float*>(workspace + offset);
  };
  Operands o{};
  o.a = expand(a_, 0, plan_.a_offset);
  o.b = expand(b_, 1, plan_.b_offset);
  o.bias = expand(bias_, 4, plan_.bias_offset);
  o.d = plan_.convert ? reinterpret_cast<float*>(workspace + plan_.result_offset)
                      : static_cast<float*>(pointers[5]);
  o.scratch = workspace + plan_.scratch_offset;
  return o;
}

void GemmOperation::block(const Operands& o, std::int64_t index, std::int64_t thread) {
  const std::int64_t across = plan_.blocks_across();
  const std::int64_t down_index = index / across, across_index = index % across;
  const std::int64_t row = down_index * plan_.block_rows, column = across_index * plan_.block_columns;
  const std::size_t variant =
      (down_index == plan_.blocks_down() - 1 ? 2 : 0) + (across_index == across - 1 ? 1 : 0);
  const float* a = o.a + (operation_.i[0] == 1 ? row : row * pitch_a_);
  const float* b = o.b + (operation_.i[1] == 1 ? column * pitch_b_ : column);
  const float* bias = o.bias == nullptr ? nullptr : o.bias + column;
  plan_.matmuls[variant].run(arguments_[std::size_t(thread)][variant], a, b, bias,
                             o.d + row * pitch_d_ + column, o.scratch + thread * plan_.scratch_bytes);
}

void GemmOperation::products(const Operands& operands) {
  const std::int64_t blocks = plan_.blocks_down() * plan_.blocks_across();
  if (threads_ < 2 || blocks < 2) {
    for (std::int64_t i = 0; i < blocks; ++i) block(operands, i, 0);
    return;
  }
  std::atomic<bool> failed = false;
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
  for (std::int64_t i = 0; i < blocks; ++i) {
    try {
      block(operands, i, thread_number());
    } catch (...) {
      failed = true;  // no exception may leave a parallel region
    }
  }
  if (failed) throw std::runtime_error("oneDNN could not execute a matrix product");
}

void GemmOperation::run(void* const* pointers) {
  const std::lock_guard lock(mutex_);
  products(gather(pointers));
  if (!plan_.convert) return;
  char* result = static_cast<char*>(pointers[kWorkspace]) + plan_.result_offset;
  void* const add[kPointers] = {pointers[5], result, nullptr, pointers[5]};
  void* const copy[kPointers] = {result, pointers[5]};
  result_.kernel({result_.operation, operation_.i[2] == 1 ? add : copy, threads_, nullptr});
}

}  // namespace octachoron::cpu
