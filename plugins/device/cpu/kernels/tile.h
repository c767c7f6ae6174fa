#pragma once
/// A small dense product on tiles, register-blocked: what attention and the own GEMM are made of. Kernel
/// sources only.
#include "plugins/device/cpu/kernels/simd.h"

namespace octachoron::cpu::OCT_CPU_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <class W>
struct Register;
template <>
struct Register<float> {
  typedef float type __attribute__((vector_size(kVectorBytes)));
  typedef float unaligned __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
};
template <>
struct Register<double> {
  typedef double type __attribute__((vector_size(kVectorBytes)));
  typedef double unaligned __attribute__((vector_size(kVectorBytes), aligned(8), may_alias));
};

/// The left factor: element (i, k) at data[i * row + k * column].
template <class W>
struct Left {
  const W* data;
  std::int64_t row, column;
};

/// c [4 x 2 vectors] = (c +) a [4 x depth] b [depth x 2 vectors]
template <class W, bool Accumulate>
static inline void tile_block(std::int64_t depth, Left<W> a, const W* b, std::int64_t ldb, W* c,
                              std::int64_t ldc) {
  using V = typename Register<W>::type;
  using U = typename Register<W>::unaligned;
  constexpr std::int64_t lanes = kVectorBytes / sizeof(W);
  V sum[4][2] = {};
  const W *a0 = a.data, *a1 = a0 + a.row, *a2 = a1 + a.row, *a3 = a2 + a.row;
  for (std::int64_t k = 0; k < depth; ++k) {
    const V b0 = *reinterpret_cast<const U*>(b + k * ldb);
    const V b1 = *reinterpret_cast<const U*>(b + k * ldb + lanes);
    const W x0 = a0[k * a.column], x1 = a1[k * a.column], x2 = a2[k * a.column], x3 = a3[k * a.column];
    sum[0][0] += x0 * b0;
    sum[0][1] += x0 * b1;
    sum[1][0] += x1 * b0;
    sum[1][1] += x1 * b1;
    sum[2][0] += x2 * b0;
    sum[2][1] += x2 * b1;
    sum[3][0] += x3 * b0;
    sum[3][1] += x3 * b1;
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 2; ++j) {
      U* to = reinterpret_cast<U*>(c + i * ldc + j * lanes);
      *to = Accumulate ? V(*to) + sum[i][j] : sum[i][j];
    }
  }
}

/// c [rows, columns] = (c +) a [rows, depth] b [depth, columns]. Whole blocks are computed: rows are rounded
/// up to 4, columns to 32, so the tiles must have room for that.
template <class W, bool Accumulate>
static inline void tile_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, Left<W> a,
                                const W* b, std::int64_t ldb, W* c, std::int64_t ldc) {
  constexpr std::int64_t step = 2 * kVectorBytes / sizeof(W);
  for (std::int64_t j = 0; j < columns; j += step) {
    for (std::int64_t i = 0; i < rows; i += 4) {
      tile_block<W, Accumulate>(depth, {a.data + i * a.row, a.row, a.column}, b + j, ldb, c + i * ldc + j,
                                ldc);
    }
  }
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
