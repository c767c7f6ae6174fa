/// The own GEMM: any type, transposition and pitch; FP64, and everything where oneDNN is absent. Each block
/// of the result is computed by one thread over the whole depth, so bits do not depend on the number of
/// threads.
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/support.h"
#include "plugins/device/cpu/kernels/thread.h"
#include "plugins/device/cpu/kernels/tile.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

/// A factor by strides: element (i, j) of op(x) at data[i * row + j * column].
template <class T>
struct Factor {
  const T* data;
  std::int64_t row, column;
};
template <class T>
Factor<T> factor(const Call& call, int k, bool transposed) {
  const auto m = operand<const T>(call, k);
  if (transposed) return {m.data, 1, m.pitch};
  return {m.data, m.pitch, 1};
}

/// to [rows, ld] = piece of x, zero up to padded rows and ld.
template <class T>
void pack(const Factor<T>& x, std::int64_t rows, std::int64_t columns, std::int64_t padded, Wide<T>* to,
          std::int64_t ld) {
  for (std::int64_t i = 0; i < padded; ++i) {
    const std::int64_t n = i < rows ? columns : 0;
    for (std::int64_t j = 0; j < n; ++j) to[i * ld + j] = wide(x.data[i * x.row + j * x.column]);
    for (std::int64_t j = n; j < ld; ++j) to[i * ld + j] = 0;
  }
}
/// As pack, for a factor whose rows are far apart and columns close: reads along the columns.
template <class T>
void pack_transposed(const Factor<T>& x, std::int64_t rows, std::int64_t columns, std::int64_t padded,
                     Wide<T>* to, std::int64_t ld) {
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) to[i * ld + j] = wide(x.data[i * x.row + j * x.column]);
  }
  for (std::int64_t i = 0; i < padded; ++i) {
    for (std::int64_t j = i < rows ? columns : 0; j < ld; ++j) to[i * ld + j] = 0;
  }
}
template <class T>
void pack_any(const Factor<T>& x, std::int64_t rows, std::int64_t columns, std::int64_t padded, Wide<T>* to,
              std::int64_t ld) {
  return x.column == 1 ? pack(x, rows, columns, padded, to, ld)
                       : pack_transposed(x, rows, columns, padded, to, ld);
}

template <class W, class D>
struct Result {
  Matrix<D> d;
  const void* bias;
  bool bias_is_wide, accumulate;
};

template <class T, class D>
void store_block(const Result<Wide<T>, D>& result, std::int64_t row, std::int64_t column, std::int64_t rows,
                 std::int64_t columns, const Wide<T>* block) {
  using W = Wide<T>;
  for (std::int64_t i = 0; i < rows; ++i) {
    D* to = result.d.row(row + i) + column;
    for (std::int64_t j = 0; j < columns; ++j) {
      W value = block[i * kGemmColumns + j];
      if (result.bias != nullptr) {
        value += result.bias_is_wide ? static_cast<const W*>(result.bias)[column + j]
                                     : wide(static_cast<const T*>(result.bias)[column + j]);
      }
      using S = decltype(W{} + Wide<D>{});
      store(to + j, result.accumulate ? S(wide(to[j])) + S(value) : S(value));
    }
  }
}

template <class T>
void block_product(const Factor<T>& a, const Factor<T>& b, std::int64_t rows, std::int64_t columns,
                   std::int64_t depth, Wide<T>* scratch) {
  using W = Wide<T>;
  W *left = scratch, *right = left + kGemmRows * kGemmDepth, *block = right + kGemmDepth * kGemmColumns;
  std::memset(block, 0, sizeof(W) * kGemmRows * kGemmColumns);
  for (std::int64_t k = 0; k < depth; k += kGemmDepth) {
    const std::int64_t n = k + kGemmDepth < depth ? kGemmDepth : depth - k;
    pack_any<T>({a.data + k * a.column, a.row, a.column}, rows, n, round_up(rows, 4), left, kGemmDepth);
    pack_any<T>({b.data + k * b.row, b.row, b.column}, n, columns, n, right, kGemmColumns);
    tile_product<W, true>(rows, columns, n, {left, kGemmDepth, 1}, right, kGemmColumns, block, kGemmColumns);
  }
}

template <class T, class D>
void gemm(const Call& call) {
  using W = Wide<T>;
  const oct_operation& op = call.operation;
  const Factor<T> a = factor<T>(call, 0, op.i[0] == 1), b = factor<T>(call, 1, op.i[1] == 1);
  const std::int64_t depth = op.i[0] == 1 ? op.operand[0].rows : op.operand[0].columns;
  const oct_matrix& bias = op.operand[4];
  const Result<W, D> result = {operand<D>(call, 5), bias.rows > 0 ? call.pointers[4] : nullptr,
                               bias.dtype == (sizeof(W) == 8 ? OCT_F64 : OCT_F32), op.i[2] == 1};
  auto* scratch = static_cast<W*>(call.pointers[kWorkspace]);
  const std::int64_t m = result.d.rows, n = result.d.columns;
  const std::int64_t across = (n + kGemmColumns - 1) / kGemmColumns, down = (m + kGemmRows - 1) / kGemmRows;
  parallel_for(call.threads, across * down, kGemmRows * kGemmColumns * (depth + 1), [=](std::int64_t i) {
    const std::int64_t row = i / across * kGemmRows, column = i % across * kGemmColumns;
    const std::int64_t rows = row + kGemmRows < m ? kGemmRows : m - row;
    const std::int64_t columns = column + kGemmColumns < n ? kGemmColumns : n - column;
    W* mine = scratch + thread_number() * gemm_scratch();
    block_product<T>({a.data + row * a.row, a.row, a.column}, {b.data + column * b.column, b.row, b.column},
                     rows, columns, depth, mine);
    store_block<T, D>(result, row, column, rows, columns, mine + (kGemmRows + kGemmColumns) * kGemmDepth);
  });
}

}  // namespace

Kernel gemm_kernel(const oct_operation& operation) {
  const std::int32_t out = operation.operand[5].dtype;
  return by_type(operation.operand[0].dtype, [out](auto in) -> Kernel {
    return by_type(out, [](auto d) -> Kernel { return gemm<decltype(in), decltype(d)>; });
  });
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
