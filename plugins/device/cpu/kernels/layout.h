#pragma once
/// Sizes that kernels and the planning of their workspace share. All in elements of the arithmetic type
/// unless said.
#include <cstdint>

namespace octachoron::cpu {

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Attention works on tiles of this many query rows and keys.
inline constexpr std::int64_t kTile = 64;
/// Head size as stored in a tile: a multiple of two vectors of the widest instruction set.
constexpr std::int64_t padded_head(std::int64_t head_size) {
  return round_up(head_size, 32);
}
/// Scratch of one thread. Forward: q, k, v, out by head size, scores, maxima and sums.
constexpr std::int64_t attention_scratch(std::int64_t head_size) {
  return 4 * kTile * padded_head(head_size) + kTile * kTile + 2 * kTile;
}
/// Backward: k (twice), v, dk, dv, q, dout, dq by head size, probabilities and their gradient.
constexpr std::int64_t attention_backward_scratch(std::int64_t head_size) {
  return 8 * kTile * padded_head(head_size) + 2 * kTile * kTile;
}

/// Sums over flat data are made of partial sums over this many elements, whatever the number of threads.
inline constexpr std::int64_t kSumChunk = 16384;

/// The own GEMM packs both factors, a panel of this depth at a time, for parts of the result of at most this
/// many rows and columns. Threads share the blocks of a part.
inline constexpr std::int64_t kGemmDepth = 256, kGemmPart = 4096;
inline constexpr std::int64_t kGemmBlockRows = 192, kGemmBlockColumns = 512;
/// Rows and columns of a panel are rounded up to register blocks of any instruction set.
inline constexpr std::int64_t kGemmRound = 96;
constexpr std::int64_t gemm_panel(std::int64_t side, std::int64_t depth) {
  return round_up(side < kGemmPart ? side : kGemmPart, kGemmRound) *
         (depth < kGemmDepth ? depth : kGemmDepth);
}
/// \param convert the result is not of the arithmetic type: it is gathered in the workspace first
constexpr std::int64_t gemm_workspace(std::int64_t m, std::int64_t n, std::int64_t k, bool convert) {
  return gemm_panel(m, k) + gemm_panel(n, k) + (convert ? m * n : 0);
}

/// Positions per row of the fine table of the rotary embedding: angle(p) = coarse(p / step) + fine(p mod
/// step).
inline constexpr std::int64_t kRopeStep = 64;

}  // namespace octachoron::cpu
