#pragma once
/// Casts to FP8 with amax and counters: of what was read, and of results on their way out. Only integers meet
/// in atomics, so the order does not matter.
#include "core/plugin/fused_cast.h"
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {

/// \tparam E5m2 the format: otherwise E4M3
template <bool E5m2>
struct Format {
  /// |v| rounds beyond the largest number.
  static __device__ bool saturates(float v) { return E5m2 ? fabsf(v) >= 61440.f : fabsf(v) > 464.f; }

  /// Two numbers rounded to nearest even, saturating, infinity too; NaN to NaN. `low` in the low byte.
  static __device__ std::uint32_t pack(float low, float high) {
#if __CUDA_ARCH__ >= 890
    std::uint16_t packed;
    if constexpr (E5m2) {
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
    }
    return packed;
#else
    return encode(low) | encode(high) << 8;
#endif
  }

 private:
  static __device__ std::uint32_t encode(float v) {
    constexpr int mantissa = E5m2 ? 2 : 3, least_exponent = E5m2 ? -14 : -6;
    constexpr std::uint32_t largest = E5m2 ? 0x7b : 0x7e;
    const std::uint32_t sign = __float_as_uint(v) >> 31 << 7;
    if (v != v) return sign | 0x7f;
    const float size = fabsf(v);
    if (size >= 65536.f) return sign | largest;
    const int exponent = max(least_exponent, int(__float_as_uint(size) >> 23) - 127);
    const float units = rintf(size * __uint_as_float(std::uint32_t(127 + mantissa - exponent) << 23));
    return sign | min(largest, std::uint32_t(units) + (std::uint32_t(exponent - least_exponent) << mantissa));
  }
};

/// What a thread saw.
struct Seen {
  std::uint32_t amax = 0, saturated = 0, flushed = 0, nonfinite = 0;

  __device__ void add_to(std::uint32_t* to_amax, unsigned long long* counters) const {
    if (to_amax != nullptr) raise_to_block_max(amax, to_amax);
    if (counters == nullptr) return;
    const std::uint32_t count[3] = {saturated, flushed, nonfinite};
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const std::uint32_t sum = warp_sum(count[i]);
      if (threadIdx.x % 32 == 0 && sum > 0) atomicAdd(counters + i, static_cast<unsigned long long>(sum));
    }
  }
};

/// Whether one of eight codes is a zero or a NaN.
inline __device__ bool has_zero_or_nan(uint2 codes) {
  const std::uint32_t a = codes.x & 0x7f7f7f7fu, b = codes.y & 0x7f7f7f7fu;
  const std::uint32_t nan = (a + 0x01010101u) | (b + 0x01010101u);
  const std::uint32_t all_numbers = (a + 0x7f7f7f7fu) & (b + 0x7f7f7f7fu);
  return ((nan | ~all_numbers) & 0x80808080u) != 0;
}

/// Eight numbers as bytes, the first lowest. They are looked at one by one only where the largest is too
/// large or a code is special.
template <bool E5m2>
inline __device__ uint2 cast(const float (&v)[kChunk], int n, float scale, Seen* seen) {
  std::uint32_t pair[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    pair[i] = Format<E5m2>::pack(__fmul_rn(v[2 * i], scale), __fmul_rn(v[2 * i + 1], scale));
  const uint2 codes = make_uint2(pair[0] | pair[1] << 16, pair[2] | pair[3] << 16);
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kChunk; ++i) largest = fmaxf(largest, fabsf(v[i]));
  if (n == kChunk && !has_zero_or_nan(codes) && !Format<E5m2>::saturates(__fmul_rn(largest, scale))) {
    seen->amax = max(seen->amax, __float_as_uint(largest));
    return codes;
  }
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    if (i >= n) continue;
    const std::uint32_t bits = magnitude(v[i]), q = pair[i / 2] >> (8 * (i % 2)) & 0x7fu;
    const bool finite = bits < 0x7f800000u;
    seen->amax = max(seen->amax, bits);
    seen->nonfinite += finite ? 0 : 1;
    seen->saturated += finite && Format<E5m2>::saturates(__fmul_rn(v[i], scale)) ? 1 : 0;
    seen->flushed += bits != 0 && q == 0 ? 1 : 0;
  }
  return codes;
}

inline __device__ void save_bytes(std::uint8_t* to, uint2 bytes, int n, bool aligned) {
  if (aligned && n == kChunk) {
    *reinterpret_cast<uint2*>(to) = bytes;
    return;
  }
#pragma unroll
  for (int i = 0; i < kChunk; ++i)
    if (i < n) to[i] = std::uint8_t((i < 4 ? bytes.x : bytes.y) >> (8 * (i % 4)));
}

struct Bytes {
  std::uint8_t* data;
  std::int64_t pitch;
  bool aligned;  ///< all rows to 8 bytes
};
inline Bytes bytes_at(const Call& call, int k, std::int64_t column) {
  const std::int64_t pitch = call.operation.operand[k].pitch;
  auto* at = data<std::uint8_t>(call, k);
  if (at != nullptr) at += column;
  return {at, pitch, (reinterpret_cast<std::uintptr_t>(at) | std::uintptr_t(pitch)) % 8 == 0};
}

/// Where results go as they are. What kernels call with eight columns at a time is `Thread`.
template <class T>
struct Stored {
  Rows<T> y;

  struct Thread {
    const Stored& to;
    __device__ void operator()(std::int64_t row, std::int64_t column, int n, float (&v)[kChunk]) {
      to.y.save(row, column, n, v);
    }
    /// The piece of 16 bytes of that number, where rows are aligned.
    __device__ void piece(std::int64_t row, int number, const float (&v)[Piece<T>::n]) {
      reinterpret_cast<uint4*>(to.y.at(row, 0))[number] = Piece<T>::pack(v);
    }
    __device__ void finish() const {}
  };
  __device__ Thread thread() const { return {*this}; }
  bool aligned() const { return y.aligned; }
  /// Columns from `by` on will be written in chunks that begin there.
  void shift(std::int64_t by) { y.aligned = y.aligned && by * std::int64_t(sizeof(T)) % 16 == 0; }
  static constexpr bool kRecords = false;
};

/// Where the codes of results go, which are those of the results as T stores them; and they themselves where
/// `y` has memory.
template <class T, bool E5m2>
struct CastTo {
  Rows<T> y;
  const float* scale;
  Bytes row;
  std::uint32_t* amax;
  unsigned long long* counters;

  struct Thread {
    const CastTo& to;
    float scale;
    Seen seen;
    __device__ void operator()(std::int64_t row, std::int64_t column, int n, float (&v)[kChunk]) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) v[i] = rounded(v[i], T{});
      if (to.y.data != nullptr) to.y.save(row, column, n, v);
      const uint2 codes = cast<E5m2>(v, n, scale, &seen);
      save_bytes(to.row.data + row * to.row.pitch + column, codes, n, to.row.aligned);
    }
    __device__ void piece(std::int64_t row, int number, float (&v)[kChunk]) {
      (*this)(row, std::int64_t(number) * kChunk, kChunk, v);
    }
    /// By all threads of a warp.
    __device__ void finish() const {
      seen.add_to(to.amax, to.counters);
    }
  };
  __device__ Thread thread() const {
    return {*this, *scale, {}};
  }
  bool aligned() const {
    return y.aligned && row.aligned;
  }
  void shift(std::int64_t by) {
    y.aligned = y.aligned && by * std::int64_t(sizeof(T)) % 16 == 0;
    row.aligned = row.aligned && by % 8 == 0;
  }
  static constexpr bool kRecords = true;  ///< finish() is better called seldom
};

template <class T, bool E5m2>
CastTo<T, E5m2> cast_to(const Call& call) {
  const FusedCast cast = fused_cast(call.operation.op);
  return {rows<T>(call, cast.wide), data<const float>(call, cast.scale()), bytes_at(call, cast.row(), 0),
          data<std::uint32_t>(call, cast.amax()), data<unsigned long long>(call, cast.counters())};
}

/// use(result) with where the results of type T of an operation go: as they are or, in BF16, with their cast.
template <class T, class Use>
void with_result(const Call& call, Use use) {
  const oct_operation& op = call.operation;
  const FusedCast cast = fused_cast(op.op);
  if constexpr (sizeof(T) == 2) {
    if (cast.is_in(op.operands)) {
      if (op.operand[cast.row()].dtype == OCT_E5M2) return use(cast_to<T, true>(call));
      return use(cast_to<T, false>(call));
    }
  }
  use(Stored<T>{rows<T>(call, cast.wide)});
}

/// f(row, column, n, result) for chunks that cover rows x columns, with results of one thread.
template <class F, class Result>
__global__ void __launch_bounds__(256)
    map_to_kernel(F f, Result to, Divider per_row, std::uint32_t chunks, std::int64_t columns) {
  auto result = to.thread();
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < chunks; i += gridDim.x * blockDim.x) {
    const std::uint32_t row = per_row.of(i);
    const std::int64_t column = std::int64_t(i - row * per_row.divisor) * kChunk, left = columns - column;
    f(row, column, left < kChunk ? int(left) : kChunk, result);
  }
  result.finish();
}
template <class F, class Result>
void map_to(const Call& call, std::int64_t rows, std::int64_t columns, F f, Result to) {
  const std::int64_t per_row = divide_up(columns, kChunk), chunks = rows * per_row;
  if (chunks >= std::int64_t(1) << 31)
    throw std::invalid_argument("more than 2^34 elements in one operation");
  const std::int64_t blocks = divide_up(chunks, 256), most = Result::kRecords ? 2048 : 4096;
  launch(call, map_to_kernel<F, Result>, dim3(unsigned(blocks < most ? blocks : most)), 256, 0, f, to,
         Divider(per_row), std::uint32_t(chunks), columns);
}

}  // namespace octachoron::cuda
