/// Casts to FP8 with what is recorded on the way, and maxima.
#include "plugins/device/cpu/kernels/fp8.h"
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/support.h"
#include "plugins/device/cpu/kernels/transpose.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

/// What a piece of a tensor was like. Maxima and counts of integers: pieces may come in any order.
struct Seen {
  std::uint32_t amax = 0, saturated = 0, flushed = 0, nonfinite = 0;
};

/// to = cast(from * scale), n elements.
template <class T, class F>
inline void cast(const T* from, std::int64_t n, float scale, std::uint8_t* to, Seen* seen) {
  std::uint32_t amax = seen->amax, saturated = 0, flushed = 0, nonfinite = 0;
#pragma omp simd reduction(max : amax) reduction(+ : saturated, flushed, nonfinite)
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = single(from[i]), scaled = x * scale;
    const std::uint32_t code = encode<F>(scaled);
    const std::uint32_t magnitude = bits_of(x) & 0x7fffffffu, after = bits_of(scaled) & 0x7fffffffu;
    to[i] = std::uint8_t(code);
    amax = magnitude > amax ? magnitude : amax;
    const std::uint32_t finite = magnitude < kInfinity ? 1u : 0u;
    nonfinite += 1 - finite;
    saturated += (after > __builtin_bit_cast(std::uint32_t, F::last) ? 1u : 0u) & finite;
    flushed += ((code & 0x7fu) == 0 ? 1u : 0u) & (magnitude != 0 ? 1u : 0u);
  }
  seen->amax = amax;
  seen->saturated += saturated;
  seen->flushed += flushed;
  seen->nonfinite += nonfinite;
}

struct Record {
  std::uint32_t* amax;
  std::uint64_t* counters;
  void add(const Seen& seen) const {
    if (amax != nullptr) raise(amax, seen.amax);
    if (counters == nullptr) return;
    const std::uint32_t counts[] = {seen.saturated, seen.flushed, seen.nonfinite};
    for (int k = 0; k < 3; ++k) {
      if (counts[k] > 0) __atomic_fetch_add(counters + k, std::uint64_t(counts[k]), __ATOMIC_RELAXED);
    }
  }
};

/// Without a transposed result: along the rows.
template <class T, class F>
void quantize_rows(const Call& call, Span span, float scale, const Record& record) {
  const auto x = operand<const T>(call, 0);
  const auto row = operand<std::uint8_t>(call, 2);
  for_pieces(call.threads, x.rows, span.end - span.begin, 4,
             [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
               Seen seen;
               begin += span.begin, end += span.begin;
               cast<T, F>(x.row(r) + begin, end - begin, scale, row.row(r) + begin, &seen);
               record.add(seen);
             });
}

/// With it: each tile is cast once and written both ways.
template <class T, class F>
void quantize_tiles(const Call& call, float scale, const Record& record) {
  const auto x = operand<const T>(call, 0);
  const auto row = operand<std::uint8_t>(call, 2), column = operand<std::uint8_t>(call, 3);
  for_tiles(call.threads, x.rows, x.columns,
            [=](std::int64_t top, std::int64_t left, std::int64_t rows, std::int64_t columns) {
              alignas(64) std::uint8_t tile[kTileSide * kTileSide];
              Seen seen;
              for (std::int64_t r = 0; r < rows; ++r) {
                std::uint8_t* codes = tile + r * kTileSide;
                cast<T, F>(x.row(top + r) + left, columns, scale, codes, &seen);
                if (row) std::memcpy(row.row(top + r) + left, codes, std::size_t(columns));
              }
              transpose_tile(tile, kTileSide, rows, columns, column.row(left) + top, column.pitch);
              record.add(seen);
            });
}

template <class T, class F>
void quantize(const Call& call) {
  const oct_operation& op = call.operation;
  const float scale = *static_cast<const float*>(call.pointers[1]);
  const Record record = {static_cast<std::uint32_t*>(call.pointers[4]),
                         static_cast<std::uint64_t*>(call.pointers[5])};
  if (op.operand[3].rows > 0) return quantize_tiles<T, F>(call, scale, record);
  const std::int64_t columns = op.operand[0].columns;
  quantize_rows<T, F>(call, op.i[0] == 1 ? window(op.i + 1, columns) : Span{0, columns}, scale, record);
}

template <class T>
void amax(const Call& call) {
  const oct_operation& op = call.operation;
  const auto x = operand<const T>(call, 0);
  auto* result = static_cast<std::uint32_t*>(call.pointers[1]);
  if (op.i[0] == 0) *result = 0;
  const Span span = op.i[4] == 1 ? window(op.i + 1, x.columns) : Span{0, x.columns};
  for_pieces(call.threads, x.rows, span.end - span.begin, 1,
             [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
               const T* from = x.row(r) + span.begin;
               std::uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
               for (std::int64_t c = begin; c < end; ++c) {
                 const std::uint32_t magnitude = bits_of(single(from[c])) & 0x7fffffffu;
                 largest = magnitude > largest ? magnitude : largest;
               }
               raise(result, largest);
             });
}

}  // namespace

Kernel quantize_kernel(const oct_operation& operation) {
  const bool e4m3 = operation.operand[operation.operand[2].rows > 0 ? 2 : 3].dtype == OCT_E4M3;
  return by_type(operation.operand[0].dtype, [e4m3](auto tag) -> Kernel {
    using T = decltype(tag);
    return e4m3 ? quantize<T, E4m3> : quantize<T, E5m2>;
  });
}
Kernel amax_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype, [](auto tag) -> Kernel { return amax<decltype(tag)>; });
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
