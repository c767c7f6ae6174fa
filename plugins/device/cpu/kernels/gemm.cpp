/// The own GEMM: any type, transposition and pitch. Both factors are packed into panels, which also converts
/// them, and threads share out blocks of the result. Every element is summed over the depth in one order,
/// whatever the blocks and the number of threads.
#include "plugins/device/cpu/kernels/gemm_tile.h"
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/support.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

/// A factor by strides, long along the side that it gives to the result: element (i, k) at data[i * along + k
/// * depth].
template <class T>
struct Factor {
  const T* data;
  std::int64_t along, depth;
  Factor at(std::int64_t i, std::int64_t k) const { return {data + i * along + k * depth, along, depth}; }
};
template <class T>
Factor<T> factor(const Call& call, int k, bool along_rows) {
  const auto m = operand<const T>(call, k);
  if (along_rows) return {m.data, m.pitch, 1};
  return {m.data, 1, m.pitch};
}

/// to [depth, Width] = the transposed piece of `rows` rows, zero beyond them.
template <int Width, class T>
void pack(const Factor<T>& x, std::int64_t rows, std::int64_t depth, Wide<T>* to) {
  if (rows < Width) {
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t i = 0; i < Width; ++i)
        to[k * Width + i] = i < rows ? wide(x.data[i * x.along + k * x.depth]) : Wide<T>(0);
  } else if (x.along == 1) {
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t i = 0; i < Width; ++i) to[k * Width + i] = wide(x.data[k * x.depth + i]);
  } else {
    // A line of the cache at a time, so that as few lines as there are rows are at hand.
    constexpr std::int64_t line = 16;
    for (std::int64_t first = 0; first < depth; first += line) {
      const std::int64_t end = first + line < depth ? first + line : depth;
      for (std::int64_t i = 0; i < Width; ++i)
        for (std::int64_t k = first; k < end; ++k) to[k * Width + i] = wide(x.data[i * x.along + k]);
    }
  }
}

/// The product as its threads see it: accumulates into `d`, in the arithmetic type.
template <class T>
struct Product {
  using W = Wide<T>;
  Factor<T> a, b;
  std::int64_t m, n, k;
  W* d;
  std::int64_t pitch;
  const void* bias;
  bool bias_is_wide, accumulate;
  W *left, *right;  ///< panels

  W bias_at(std::int64_t column) const {
    if (bias == nullptr) return W(0);
    return bias_is_wide ? static_cast<const W*>(bias)[column] : wide(static_cast<const T*>(bias)[column]);
  }
};

/// What all blocks of one panel have in common.
struct Panel {
  std::int64_t row, column, rows, columns;  ///< part of the result
  std::int64_t first, depth;
};

template <class T>
void add_block(const Product<T>& p, const Panel& panel, std::int64_t row, std::int64_t column) {
  using W = Wide<T>;
  constexpr std::int64_t width = kBlockColumns<W>;
  W* to = p.d + (panel.row + row) * p.pitch + panel.column + column;
  const std::int64_t rows = panel.rows - row < kBlockRows ? panel.rows - row : kBlockRows;
  for (std::int64_t i = 0; i < rows; ++i) __builtin_prefetch(to + i * p.pitch, 1);
  RegisterBlock<W> block;
  block.multiply(panel.depth, p.left + row * panel.depth, p.right + column * panel.depth);
  const std::int64_t columns = panel.columns - column < width ? panel.columns - column : width;
  const bool onto = p.accumulate || panel.first > 0, biased = p.bias != nullptr && panel.first == 0;
  if (columns == width && !biased) {
    using U = typename Register<W>::unaligned;
    for (std::int64_t i = 0; i < rows; ++i, to += p.pitch)
      for (int j = 0; j < 2; ++j) {
        U* at = reinterpret_cast<U*>(to + j * RegisterBlock<W>::lanes);
        *at = onto ? *at + block.sum[i][j] : block.sum[i][j];
      }
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i, to += p.pitch)
    for (std::int64_t j = 0; j < columns; ++j) {
      const W sum = block.sum[i][j / RegisterBlock<W>::lanes][j % RegisterBlock<W>::lanes];
      const W value = biased ? sum + p.bias_at(panel.column + column + j) : sum;
      to[j] = onto ? to[j] + value : value;
    }
}

template <class T>
void pack_piece(const Product<T>& p, const Panel& panel, std::int64_t index) {
  using W = Wide<T>;
  constexpr std::int64_t width = kBlockColumns<W>;
  const std::int64_t pieces = (panel.rows + kBlockRows - 1) / kBlockRows;
  if (index < pieces) {
    const std::int64_t row = index * kBlockRows;
    pack<kBlockRows>(p.a.at(panel.row + row, panel.first), panel.rows - row, panel.depth,
                     p.left + row * panel.depth);
  } else {
    const std::int64_t column = (index - pieces) * width;
    pack<int(width)>(p.b.at(panel.column + column, panel.first), panel.columns - column, panel.depth,
                     p.right + column * panel.depth);
  }
}

/// One block of the cache: `left` of it stays in the second level, a piece of `right` in the first.
template <class T>
void block(const Product<T>& p, const Panel& panel, std::int64_t row, std::int64_t column) {
  const std::int64_t last_row = row + kGemmBlockRows < panel.rows ? row + kGemmBlockRows : panel.rows;
  const std::int64_t last =
      column + kGemmBlockColumns < panel.columns ? column + kGemmBlockColumns : panel.columns;
  for (std::int64_t j = column; j < last; j += kBlockColumns<Wide<T>>)
    for (std::int64_t i = row; i < last_row; i += kBlockRows) add_block(p, panel, i, j);
}

/// Runs in every thread of a team: the loops are shared out, and end in barriers.
template <class T>
void share_panel(const Product<T>& p, const Panel& panel) {
  const auto pieces = [](std::int64_t side, std::int64_t piece) { return (side + piece - 1) / piece; };
  const std::int64_t packs = pieces(panel.rows, kBlockRows) + pieces(panel.columns, kBlockColumns<Wide<T>>);
  const std::int64_t across = pieces(panel.columns, kGemmBlockColumns);
  const std::int64_t blocks = across * pieces(panel.rows, kGemmBlockRows);
#pragma omp for schedule(static)
  for (std::int64_t i = 0; i < packs; ++i) pack_piece(p, panel, i);
#pragma omp for schedule(dynamic)
  for (std::int64_t i = 0; i < blocks; ++i)
    block(p, panel, i / across * kGemmBlockRows, i % across * kGemmBlockColumns);
}

template <class T>
void share_product(const Product<T>& p) {
  const auto part = [](std::int64_t side, std::int64_t at, std::int64_t piece) {
    return side - at < piece ? side - at : piece;
  };
  for (std::int64_t row = 0; row < p.m; row += kGemmPart)
    for (std::int64_t column = 0; column < p.n; column += kGemmPart)
      for (std::int64_t k = 0; k == 0 || k < p.k; k += kGemmDepth)
        share_panel(p, {row, column, part(p.m, row, kGemmPart), part(p.n, column, kGemmPart), k,
                        part(p.k, k, kGemmDepth)});
}

template <class T>
void multiply(const Product<T>& p, int threads) {
  constexpr double worthwhile = 1 << 18;
  if (threads < 2 || double(p.m) * double(p.n) * double(p.k + 1) < worthwhile) return share_product(p);
#pragma omp parallel num_threads(threads)
  share_product(p);
}

template <class T, class D>
void gemm(const Call& call) {
  using W = Wide<T>;
  const oct_operation& op = call.operation;
  const auto d = operand<D>(call, 5);
  const oct_matrix& bias = op.operand[4];
  Product<T> p{};
  p.a = factor<T>(call, 0, op.i[0] == 0), p.b = factor<T>(call, 1, op.i[1] == 1);
  p.m = d.rows, p.n = d.columns, p.k = op.i[0] == 1 ? op.operand[0].rows : op.operand[0].columns;
  p.bias = bias.rows > 0 ? call.pointers[4] : nullptr;
  p.bias_is_wide = bias.dtype == (sizeof(W) == 8 ? OCT_F64 : OCT_F32);
  p.left = static_cast<W*>(call.pointers[kWorkspace]);
  p.right = p.left + gemm_panel(p.m, p.k);
  constexpr bool convert = !__is_same(W, D);
  W* const result = p.right + gemm_panel(p.n, p.k);
  if constexpr (convert)
    p.d = result, p.pitch = p.n;
  else
    p.d = d.data, p.pitch = d.pitch, p.accumulate = op.i[2] == 1;
  multiply(p, call.threads);
  if constexpr (convert)
    for_pieces(call.threads, p.m, p.n, 1, [=, &op](std::int64_t r, std::int64_t begin, std::int64_t end) {
      using S = decltype(W{} + Wide<D>{});
      D* to = d.row(r);
      const W* from = result + r * p.n;
      if (op.i[2] == 1)
        for (std::int64_t c = begin; c < end; ++c) store(to + c, S(wide(to[c])) + S(from[c]));
      else
        for (std::int64_t c = begin; c < end; ++c) store(to + c, S(from[c]));
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
