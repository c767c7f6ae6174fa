#pragma once
/// Operands as typed matrices, choice by element type, and loops over threads. Included by kernel sources
/// only.
#include "plugins/device/cpu/kernels/layout.h"
#include "plugins/device/cpu/kernels/simd.h"

namespace octachoron::cpu::OCT_CPU_ISA {

template <class T>
struct Matrix {
  T* data;
  std::int64_t rows, columns, pitch;
  T* row(std::int64_t r) const { return data + r * pitch; }
  explicit operator bool() const { return data != nullptr && rows > 0; }
};

/// Operand k of the call.
template <class T>
static inline Matrix<T> operand(const Call& call, int k) {
  const oct_matrix& m = call.operation.operand[k];
  return {static_cast<T*>(call.pointers[k]), m.rows, m.columns, m.pitch};
}

/// choose(tag) with a tag of the element type; null for types without kernels.
template <class Choose>
static inline Kernel by_type(std::int32_t dtype, Choose choose) {
  switch (dtype) {
    case OCT_F32:
      return choose(float{});
    case OCT_F64:
      return choose(double{});
    case OCT_BF16:
      return choose(Bf16{});
    default:
      return nullptr;
  }
}
/// As by_type, for a gradient beside elements of T: it is of T's arithmetic type or of T itself.
template <class T, class Choose>
static inline Kernel by_gradient_type(std::int32_t dtype, Choose choose) {
  if (dtype == OCT_BF16) return choose(T{});
  return choose(Wide<T>{});
}

/// body(i) for i < n, on several threads if there is enough work. Bodies must not depend on each other.
/// \param cost of one body, in element operations
template <class Body>
static inline void parallel_for(int threads, std::int64_t n, std::int64_t cost, Body body) {
  constexpr std::int64_t worthwhile = 1 << 15;
  if (threads < 2 || n < 2 || n * cost < worthwhile) {
    for (std::int64_t i = 0; i < n; ++i) body(i);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t i = 0; i < n; ++i) body(i);
}

/// As parallel_for, for few bodies of unequal cost.
template <class Body>
static inline void parallel_tasks(int threads, std::int64_t n, Body body) {
  if (threads < 2 || n < 2) {
    for (std::int64_t i = 0; i < n; ++i) body(i);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (std::int64_t i = 0; i < n; ++i) body(i);
}

/// body(row, begin, end) over pieces of rows that cover rows x columns.
template <class Body>
static inline void for_pieces(int threads, std::int64_t rows, std::int64_t columns, int cost, Body body) {
  constexpr std::int64_t length = 4096;
  if (columns <= 0) return;
  const std::int64_t pieces = (columns + length - 1) / length;
  parallel_for(threads, rows * pieces, cost * (columns < length ? columns : length), [=](std::int64_t i) {
    const std::int64_t row = i / pieces, begin = i % pieces * length;
    const std::int64_t end = begin + length < columns ? begin + length : columns;
    body(row, begin, end);
  });
}

/// Sums over rows, kept in FP64, of kColumns columns at a time.
inline constexpr std::int64_t kColumns = 128;
struct ColumnSums {
  alignas(64) double sum[kColumns];
};

/// to[c] = sum (+ to[c] if accumulate), for n columns.
template <class G>
static inline void store_sums(G* to, const double* sum, std::int64_t n, bool accumulate) {
  for (std::int64_t c = 0; c < n; ++c) {
    const double total = accumulate ? double(wide(to[c])) + sum[c] : sum[c];
    store(to + c, Wide<G>(total));
  }
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
