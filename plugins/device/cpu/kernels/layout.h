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

/// The own GEMM: block of the result and depth of a packed panel.
inline constexpr std::int64_t kGemmRows = 64, kGemmColumns = 64, kGemmDepth = 256;
constexpr std::int64_t gemm_scratch() {
  return (kGemmRows + kGemmColumns) * kGemmDepth + kGemmRows * kGemmColumns;
}

/// Positions per row of the fine table of the rotary embedding: angle(p) = coarse(p / step) + fine(p mod
/// step).
inline constexpr std::int64_t kRopeStep = 64;

}  // namespace octachoron::cpu
