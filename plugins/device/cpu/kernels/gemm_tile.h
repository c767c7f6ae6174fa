#pragma once
/// The inner product of GEMM on packed panels, register-blocked. Kernel sources only.
#include "plugins/device/cpu/kernels/layout.h"
#include "plugins/device/cpu/kernels/tile.h"

namespace octachoron::cpu::OCT_CPU_ISA {

/// A register block: as many sums as hide the latency of multiplications and leave room for the factors.
inline constexpr int kBlockRows = kVectorBytes == 64 ? 12 : kVectorBytes == 32 ? 6 : 4;
template <class W>
inline constexpr int kBlockColumns = int(2 * kVectorBytes / sizeof(W));

static_assert(kGemmRound % kBlockRows == 0 && kGemmRound % kBlockColumns<float> == 0 &&
              kGemmBlockRows % kBlockRows == 0 && kGemmBlockColumns % kBlockColumns<float> == 0);

/// sum [block] = a b over the depth. \param a [depth, kBlockRows] \param b [depth, kBlockColumns]
template <class W>
struct RegisterBlock {
  using V = typename Register<W>::type;
  using U = typename Register<W>::unaligned;
  static constexpr int lanes = kVectorBytes / int(sizeof(W));
  V sum[kBlockRows][2];

  inline __attribute__((always_inline)) void multiply(std::int64_t depth, const W* a, const W* b) {
    V s[kBlockRows][2] = {};
    for (std::int64_t k = 0; k < depth; ++k, a += kBlockRows, b += 2 * lanes) {
      const V b0 = *reinterpret_cast<const U*>(b), b1 = *reinterpret_cast<const U*>(b + lanes);
#pragma GCC unroll 12
      for (int i = 0; i < kBlockRows; ++i) {
        s[i][0] += a[i] * b0;
        s[i][1] += a[i] * b1;
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < kBlockRows; ++i) sum[i][0] = s[i][0], sum[i][1] = s[i][1];
  }
};

}  // namespace octachoron::cpu::OCT_CPU_ISA
