#pragma once
/// Transposition of a tile in registers. Kernel sources only.
#include "plugins/device/cpu/kernels/support.h"

namespace octachoron::cpu::OCT_CPU_ISA {

typedef std::uint8_t Bytes __attribute__((vector_size(16)));
typedef std::uint16_t Halves __attribute__((vector_size(16)));
typedef std::uint32_t Words __attribute__((vector_size(16)));

template <class Bits>
struct Line;
template <>
struct Line<std::uint8_t> {
  using type = Bytes;
  static type low(type a, type b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  static type high(type a, type b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
};
template <>
struct Line<std::uint16_t> {
  using type = Halves;
  static type low(type a, type b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
  static type high(type a, type b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
};
template <>
struct Line<std::uint32_t> {
  using type = Words;
  static type low(type a, type b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
  static type high(type a, type b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
};

/// As many rows and columns as a vector of 16 bytes has elements: each round interleaves rows i and i + n/2.
template <class Bits>
static inline void transpose_square(const Bits* from, std::int64_t pitch, Bits* to, std::int64_t to_pitch) {
  constexpr int n = 16 / int(sizeof(Bits));
  using Vector = typename Line<Bits>::type;
  Vector rows[n], next[n];
  for (int i = 0; i < n; ++i) std::memcpy(&rows[i], from + i * pitch, sizeof(Vector));
#pragma GCC unroll 4
  for (int round = 1; round < n; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      next[2 * i] = Line<Bits>::low(rows[i], rows[i + n / 2]);
      next[2 * i + 1] = Line<Bits>::high(rows[i], rows[i + n / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) rows[i] = next[i];
  }
  for (int i = 0; i < n; ++i) std::memcpy(to + i * to_pitch, &rows[i], sizeof(Vector));
}

/// to [columns, rows] = from [rows, columns] transposed.
template <class Bits>
static inline void transpose_tile(const Bits* from, std::int64_t pitch, std::int64_t rows,
                                  std::int64_t columns, Bits* to, std::int64_t to_pitch) {
  constexpr std::int64_t n = 16 / sizeof(Bits);
  const std::int64_t whole_rows = rows - rows % n, whole_columns = columns - columns % n;
  for (std::int64_t c = 0; c < whole_columns; c += n) {
    for (std::int64_t r = 0; r < whole_rows; r += n)
      transpose_square(from + r * pitch + c, pitch, to + c * to_pitch + r, to_pitch);
  }
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::int64_t r = c < whole_columns ? whole_rows : 0; r < rows; ++r)
      to[c * to_pitch + r] = from[r * pitch + c];
  }
}

/// Side of the tiles that are shared out to threads.
inline constexpr std::int64_t kTileSide = 64;

/// body(row, column, rows, columns) over tiles that cover rows x columns.
template <class Body>
static inline void for_tiles(int threads, std::int64_t rows, std::int64_t columns, Body body) {
  const std::int64_t down = (rows + kTileSide - 1) / kTileSide,
                     across = (columns + kTileSide - 1) / kTileSide;
  parallel_for(threads, down * across, kTileSide * kTileSide, [=](std::int64_t i) {
    const std::int64_t row = i / across * kTileSide, column = i % across * kTileSide;
    body(row, column, row + kTileSide < rows ? kTileSide : rows - row,
         column + kTileSide < columns ? kTileSide : columns - column);
  });
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
