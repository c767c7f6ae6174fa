/// Transposition of elements of one, two and four bytes.
#include "core/plugin/dtype.h"
#include "plugins/device/cuda/kernels/byte_tile.cuh"

namespace octachoron::cuda {
namespace {

constexpr int kTile = 64;

/// 64 x 64 elements by 256 threads: a warp reads and writes whole pieces of rows.
template <class Word>
__global__ void __launch_bounds__(256)
    transpose_kernel(const Word* in, std::int64_t in_pitch, Word* out, std::int64_t out_pitch,
                     std::int64_t rows, std::int64_t columns) {
  __shared__ Word tile[kTile][kTile + 4 / sizeof(Word)];
  const std::int64_t row = std::int64_t(blockIdx.x) * kTile, column = std::int64_t(blockIdx.y) * kTile;
  const int lane = threadIdx.x % kTile, group = threadIdx.x / kTile;
  for (int r = group; r < kTile; r += 4) {
    if (row + r < rows && column + lane < columns) tile[r][lane] = in[(row + r) * in_pitch + column + lane];
  }
  __syncthreads();
  for (int c = group; c < kTile; c += 4) {
    if (column + c < columns && row + lane < rows) out[(column + c) * out_pitch + row + lane] = tile[lane][c];
  }
}

template <class Word>
void transpose_words(const Call& call) {
  const oct_matrix &in = call.operation.operand[0], &out = call.operation.operand[1];
  const dim3 grid(unsigned(divide_up(in.rows, kTile)), unsigned(divide_up(in.columns, kTile)));
  launch(call, transpose_kernel<Word>, grid, 256, 0, data<const Word>(call, 0), in.pitch, data<Word>(call, 1),
         out.pitch, in.rows, in.columns);
}

struct Turned {
  const std::uint8_t* in;
  std::uint8_t* out;
  std::int64_t in_pitch, out_pitch, rows, columns;
  bool in_aligned, out_aligned;  ///< rows to 16 bytes
};

/// Sixteen bytes of four rows each by a thread.
__global__ void __launch_bounds__(256) transpose_bytes_kernel(Turned t) {
  using Tile = ByteTile<128>;
  __shared__ Tile tile;
  const std::int64_t row = std::int64_t(blockIdx.x) * Tile::kRows, column = std::int64_t(blockIdx.y) * 128;
  const int first = int(threadIdx.x) % 8 * Tile::kInThread, quad = int(threadIdx.x) / 8;
  const std::uint8_t* from = t.in + (row + 4 * quad) * t.in_pitch + column + first;
  std::uint32_t word[4][4] = {};  // of a row
  if (t.in_aligned && row + Tile::kRows <= t.rows && column + 128 <= t.columns) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const uint4 piece = *reinterpret_cast<const uint4*>(from + r * t.in_pitch);
      word[r][0] = piece.x, word[r][1] = piece.y, word[r][2] = piece.z, word[r][3] = piece.w;
    }
  } else {
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 16; ++c)
        if (row + 4 * quad + r < t.rows && column + first + c < t.columns)
          word[r][c / 4] |= std::uint32_t(from[r * t.in_pitch + c]) << (8 * (c % 4));
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    std::uint32_t square[4] = {word[0][k], word[1][k], word[2][k], word[3][k]};
    turn(square);
#pragma unroll
    for (int c = 0; c < 4; ++c) tile.put(first + 4 * k + c, quad, square[c]);
  }
  __syncthreads();
  tile.save(t.out + column * t.out_pitch + row, t.out_pitch, t.out_aligned, t.rows - row, t.columns - column);
}

void transpose_bytes(const Call& call) {
  const oct_matrix &in = call.operation.operand[0], &out = call.operation.operand[1];
  const auto from = rows<const std::uint8_t>(call, 0);
  const auto to = rows<std::uint8_t>(call, 1);
  const dim3 grid(unsigned(divide_up(in.rows, 128)), unsigned(divide_up(in.columns, 128)));
  launch(call, transpose_bytes_kernel, grid, 256, 0,
         Turned{from.data, to.data, in.pitch, out.pitch, in.rows, in.columns, from.aligned, to.aligned});
}

}  // namespace

void transpose(const Call& call) {
  switch (size_of(DType(call.operation.operand[0].dtype))) {
    case 4:
      return transpose_words<std::uint32_t>(call);
    case 2:
      return transpose_words<std::uint16_t>(call);
    default:
      return transpose_bytes(call);
  }
}

}  // namespace octachoron::cuda
