/// Gradient of the token embedding: every row of the table sums the gradients of its tokens in their order,
/// in pieces of kPiece tokens that are summed in turn. Only the bookkeeping uses atomics, on integers: where
/// a row's tokens are listed depends on the timing, their order within the list and thus every sum does not.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

constexpr int kPiece = 64;  // a piece is summed in FP32

/// Per row of the table.
struct Counts {
  std::uint32_t tokens, start, filled, piece;  // where its list starts; listed so far; its first partial sum
};
struct Lists {
  Counts* counts;              // [rows]
  std::uint32_t* cursor;       // ends of the lists and of the partial sums handed out
  std::int32_t *any, *sorted;  // [tokens]: lists in any order, and in the order of tokens
  float* partial;              // [pieces, columns]
  std::int64_t tokens, first, rows, columns;
  const std::int32_t* ids;

  /// The row of the token, or -1 if another rank has it.
  __device__ std::int64_t row(std::int64_t token) const {
    const std::int64_t row = ids[token] - first;
    return row >= 0 && row < rows ? row : -1;
  }
};

__device__ std::int64_t thread() {
  return std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
}

__global__ void clear(Lists l) {
  const std::int64_t row = thread();
  if (row < l.rows) l.counts[row] = {0, 0, 0, 0};
  if (row == 0) l.cursor[0] = l.cursor[1] = 0;
}

__global__ void count(Lists l) {
  const std::int64_t token = thread(), row = token < l.tokens ? l.row(token) : -1;
  if (row >= 0) atomicAdd(&l.counts[row].tokens, 1u);
}

__global__ void hand_out(Lists l) {
  const std::int64_t row = thread();
  if (row >= l.rows) return;
  Counts& c = l.counts[row];
  if (c.tokens == 0) return;
  c.start = atomicAdd(&l.cursor[0], c.tokens);
  if (c.tokens > kPiece) c.piece = atomicAdd(&l.cursor[1], (c.tokens + kPiece - 1) / kPiece);
}

__global__ void list(Lists l) {
  const std::int64_t token = thread(), row = token < l.tokens ? l.row(token) : -1;
  if (row < 0) return;
  Counts& c = l.counts[row];
  l.any[c.start + atomicAdd(&c.filled, 1u)] = std::int32_t(token);
}

/// A token's place is the number of earlier ones in its list.
__global__ void sort(Lists l) {
  const std::int64_t token = thread(), row = token < l.tokens ? l.row(token) : -1;
  if (row < 0) return;
  const Counts c = l.counts[row];
  const std::int32_t* any = l.any + c.start;
  std::uint32_t place = 0;
  for (std::uint32_t i = 0; i < c.tokens; ++i) place += any[i] < std::int32_t(token) ? 1 : 0;
  l.sorted[c.start + place] = std::int32_t(token);
}

/// Rows without tokens.
template <class G>
struct Zero {
  Rows<G> dtable;
  const Counts* counts;
  __device__ void operator()(std::int64_t row, std::int64_t column, int n) const {
    const float zero[kChunk] = {};
    if (counts[row].tokens == 0) dtable.save(row, column, n, zero);
  }
};

template <class G>
__device__ void write_sum(const Rows<G>& dtable, std::int64_t row, std::int64_t column, int n,
                          float (&sum)[kChunk], bool accumulate) {
  float old[kChunk] = {};
  if (accumulate) dtable.load(row, column, n, old);
#pragma unroll
  for (int i = 0; i < kChunk; ++i) sum[i] += old[i];
  dtable.save(row, column, n, sum);
}

/// A block for each listed token and 2048 columns; those at the head of a piece sum it.
template <class T, class G>
__global__ void __launch_bounds__(256)
    sum_pieces(Lists l, Rows<const T> dout, Rows<G> dtable, bool accumulate) {
  if (blockIdx.x >= l.cursor[0]) return;
  const std::int64_t row = l.row(l.sorted[blockIdx.x]);
  const Counts c = l.counts[row];
  const std::uint32_t place = blockIdx.x - c.start;
  const std::int64_t column = (std::int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * kChunk,
                     left = l.columns - column;
  if (place % kPiece != 0 || left <= 0) return;
  const int n = left < kChunk ? int(left) : kChunk;
  const std::uint32_t end = place + kPiece < c.tokens ? place + kPiece : c.tokens;
  float sum[kChunk] = {}, v[kChunk];
#pragma unroll 4
  for (std::uint32_t i = place; i < end; ++i) {
    dout.load(l.sorted[c.start + i], column, n, v);
#pragma unroll
    for (int k = 0; k < kChunk; ++k) sum[k] += v[k];
  }
  if (c.tokens <= kPiece) return write_sum(dtable, row, column, n, sum, accumulate);
  float* to = l.partial + std::int64_t(c.piece + place / kPiece) * l.columns + column;
#pragma unroll
  for (int k = 0; k < kChunk; ++k)
    if (k < n) to[k] = sum[k];
}

/// Rows of several pieces: a block for each, found by the first of its tokens.
template <class G>
__global__ void __launch_bounds__(256) sum_long_rows(Lists l, Rows<G> dtable, bool accumulate) {
  if (blockIdx.x >= l.cursor[0]) return;
  const std::int64_t row = l.row(l.sorted[blockIdx.x]);
  const Counts c = l.counts[row];
  const std::int64_t column = (std::int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * kChunk,
                     left = l.columns - column;
  if (blockIdx.x != c.start || c.tokens <= kPiece || left <= 0) return;
  const int n = left < kChunk ? int(left) : kChunk;
  const float* from = l.partial + std::int64_t(c.piece) * l.columns + column;
  double total[kChunk] = {};
#pragma unroll 4
  for (std::uint32_t p = 0; p < (c.tokens + kPiece - 1) / kPiece; ++p) {
#pragma unroll
    for (int k = 0; k < kChunk; ++k)
      if (k < n) total[k] += double(from[p * l.columns + k]);
  }
  float sum[kChunk];
#pragma unroll
  for (int k = 0; k < kChunk; ++k) sum[k] = float(total[k]);
  write_sum(dtable, row, column, n, sum, accumulate);
}

/// Partial sums of rows with more than kPiece tokens: fewer than tokens / kPiece * 2.
std::int64_t most_pieces(std::int64_t tokens) {
  return tokens / kPiece * 2 + 1;
}
struct Layout {
  std::int64_t counts, cursor, any, sorted, partial, end;
};
Layout layout(const oct_operation& op) {
  const std::int64_t tokens = op.operand[1].rows, rows = op.operand[2].rows, columns = op.operand[1].columns;
  Layout at = {};
  at.cursor = round_up(rows * std::int64_t(sizeof(Counts)), 256);
  at.any = at.cursor + 256;
  at.sorted = at.any + round_up(4 * tokens, 256);
  at.partial = at.sorted + round_up(4 * tokens, 256);
  at.end = at.partial + 4 * most_pieces(tokens) * columns;
  return at;
}

}  // namespace

std::int64_t embedding_backward_workspace(const oct_operation& op) {
  return layout(op).end;
}

void embedding_backward(const Call& call) {
  const oct_operation& op = call.operation;
  const oct_matrix &dout = op.operand[1], &dtable = op.operand[2];
  const Layout at = layout(op);
  char* workspace = data<char>(call, kWorkspace);
  const auto part = [&](std::int64_t offset, auto* like) {
    return reinterpret_cast<decltype(like)>(workspace + offset);
  };
  const Lists l = {part(at.counts, (Counts*)nullptr),
                   part(at.cursor, (std::uint32_t*)nullptr),
                   part(at.any, (std::int32_t*)nullptr),
                   part(at.sorted, (std::int32_t*)nullptr),
                   part(at.partial, (float*)nullptr),
                   dout.rows,
                   op.i[0],
                   dtable.rows,
                   dout.columns,
                   data<const std::int32_t>(call, 0)};
  const dim3 by_row(unsigned(divide_up(dtable.rows, 256))), by_token(unsigned(divide_up(dout.rows, 256)));
  launch(call, clear, by_row, 256, 0, l);
  launch(call, count, by_token, 256, 0, l);
  launch(call, hand_out, by_row, 256, 0, l);
  launch(call, list, by_token, 256, 0, l);
  launch(call, sort, by_token, 256, 0, l);
  const bool accumulate = op.i[1] == 1;
  const dim3 grid(unsigned(dout.rows), unsigned(divide_up(dout.columns, 256 * kChunk)));
  by_type(call, 1, [&](auto from) {
    by_type(call, 2, [&](auto to) {
      using T = decltype(from);
      using G = decltype(to);
      if (!accumulate) map(call, dtable.rows, dtable.columns, Zero<G>{rows<G>(call, 2), l.counts});
      launch(call, sum_pieces<T, G>, grid, 256, 0, l, rows<const T>(call, 1), rows<G>(call, 2), accumulate);
      launch(call, sum_long_rows<G>, grid, 256, 0, l, rows<G>(call, 2), accumulate);
    });
  });
}

}  // namespace octachoron::cuda
