#pragma once
/// Shapes and tiles of attention, forwards and backwards. Kernel sources only.
#include "plugins/device/cpu/kernels/support.h"
#include "plugins/device/cpu/kernels/tile.h"

namespace octachoron::cpu::OCT_CPU_ISA {

/// Attributes of an attention, and the columns of its heads in the packed q, k, v.
struct Shape {
  std::int64_t length, heads, key_heads, size, padded, group;
  explicit Shape(const oct_operation& op)
      : length(op.i[0]),
        heads(op.i[1]),
        key_heads(op.i[2]),
        size(op.i[3]),
        padded(padded_head(op.i[3])),
        group(op.i[1] / op.i[2]) {}
  std::int64_t query(std::int64_t head) const { return head * size; }
  std::int64_t key(std::int64_t head) const { return (heads + head) * size; }
  std::int64_t value(std::int64_t head) const { return (heads + key_heads + head) * size; }
};

/// to [kTile, padded] = rows x size at (first, column); zero elsewhere.
template <class M, class W>
static inline void load_tile(const M& from, std::int64_t first, std::int64_t rows, std::int64_t column,
                             const Shape& shape, W* to) {
  for (std::int64_t i = 0; i < kTile; ++i, to += shape.padded) {
    const std::int64_t n = i < rows ? shape.size : 0;
    if (n > 0) {
      const auto* x = from.row(first + i) + column;
      for (std::int64_t d = 0; d < n; ++d) to[d] = wide(x[d]);
    }
    for (std::int64_t d = n; d < shape.padded; ++d) to[d] = 0;
  }
}

/// to [size, kTile] = the transposed tile; zero beyond `rows` columns.
template <class M, class W>
static inline void load_transposed(const M& from, std::int64_t first, std::int64_t rows, std::int64_t column,
                                   const Shape& shape, W* to) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto* x = from.row(first + i) + column;
    for (std::int64_t d = 0; d < shape.size; ++d) to[d * kTile + i] = wide(x[d]);
  }
  for (std::int64_t d = 0; d < shape.size; ++d) {
    for (std::int64_t i = rows; i < kTile; ++i) to[d * kTile + i] = 0;
  }
}

/// Scales the scores of the first `visible` keys of a row and hides the others.
template <class W>
static inline void mask_row(W* row, std::int64_t visible, W scale) {
  const std::int64_t n = visible < kTile ? visible : kTile;
  for (std::int64_t j = 0; j < n; ++j) row[j] *= scale;
  for (std::int64_t j = n; j < kTile; ++j) row[j] = W(-__builtin_inf());
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
