#pragma once
/// The checksum of a tensor (contract, section 4): sum over i of splitmix64(i * 2^32 + bits(i)) mod 2^64, i
/// the row-major index in the global tensor. Sums over disjoint parts add, so it does not depend on who wrote
/// what.
#include <bit>
#include <cstdint>

#include "core/numerics/tensor_layout.h"

namespace octachoron {

constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
constexpr std::uint64_t bits_of(std::uint32_t value) {
  return value;
}
constexpr std::uint64_t bits_of(std::uint64_t value) {
  return value;
}

/// Partial sum of `count` elements whose global indices begin at `first`. T is float, uint32 or uint64.
template <class T>
std::uint64_t checksum(std::int64_t first, const T* values, std::int64_t count) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += splitmix64((std::uint64_t(first + i) << 32) + bits_of(values[i]));
  return sum;
}

/// Partial sum of a piece, whose elements lie one after another.
template <class T>
std::uint64_t checksum(const TensorLayout& layout, const Piece& piece, const T* values) {
  if (piece.columns == layout.global_columns)
    return checksum(layout.global_index(piece.row, 0), values, piece.size());
  std::uint64_t sum = 0;
  for (std::int64_t row = 0; row < piece.rows; ++row)
    sum += checksum(layout.global_index(piece.row + row, piece.column), values + row * piece.columns,
                    piece.columns);
  return sum;
}

}  // namespace octachoron
