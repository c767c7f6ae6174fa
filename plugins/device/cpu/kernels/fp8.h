#pragma once
/// The two FP8 formats: casts without branches, so that loops over them become vector code. Kernel sources
/// only.
#include "plugins/device/cpu/kernels/simd.h"

namespace octachoron::cpu::OCT_CPU_ISA {

/// Elements of type E4M3 or E5M2, with what tells the formats apart.
struct E4m3 {
  std::uint8_t bits;
  static constexpr int mantissa = 3, bias = 7;
  static constexpr std::uint32_t largest = 0x7e;
  static constexpr float last = 464.f;  ///< rounds to `largest`; what is above it saturates
};
struct E5m2 {
  std::uint8_t bits;
  static constexpr int mantissa = 2, bias = 15;
  static constexpr std::uint32_t largest = 0x7b;
  static constexpr float last = 0x1.dffffep15f;  ///< below 61440, the tie that goes up
};

static inline bool is_narrow(std::int32_t dtype) {
  return dtype == OCT_E4M3 || dtype == OCT_E5M2;
}

static inline std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
inline constexpr std::uint32_t kInfinity = 0x7f800000u;

/// Rounds to nearest even and saturates; NaN is 0x7f.
template <class F>
static inline std::uint32_t encode(float value) {
  constexpr int shift = 23 - F::mantissa;
  constexpr std::uint32_t least_normal = std::uint32_t(127 + 1 - F::bias) << 23;
  // The sum with it is rounded where the subnormals of the format end.
  constexpr float magic = __builtin_bit_cast(float, std::uint32_t(127 + 1 - F::bias + shift) << 23);
  const std::uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu, sign = (bits >> 24) & 0x80u;
  const std::uint32_t nearest = magnitude + ((1u << (shift - 1)) - 1) + ((magnitude >> shift) & 1u);
  const std::uint32_t normal = (nearest >> shift) - (std::uint32_t(127 - F::bias) << F::mantissa);
  const std::uint32_t subnormal = bits_of(__builtin_bit_cast(float, magnitude) + magic) - bits_of(magic);
  std::uint32_t code = magnitude < least_normal ? subnormal : normal;
  code = magnitude > __builtin_bit_cast(std::uint32_t, F::last) ? F::largest : code;
  return magnitude > kInfinity ? 0x7fu : code | sign;
}

/// \param special magnitudes from here on are infinite or NaN
template <class F>
static inline float decode(F value, std::uint32_t special) {
  constexpr float unit = __builtin_bit_cast(float, std::uint32_t(127 + 1 - F::bias - F::mantissa) << 23);
  constexpr std::uint32_t rebias = std::uint32_t(127 - F::bias) << 23;
  const std::uint32_t code = value.bits, magnitude = code & 0x7fu, sign = (code & 0x80u) << 24;
  const std::uint32_t subnormal = bits_of(float(std::int32_t(magnitude)) * unit);
  const std::uint32_t normal = (magnitude << (23 - F::mantissa)) + rebias;
  std::uint32_t bits = magnitude < (1u << F::mantissa) ? subnormal : normal;
  bits = magnitude >= special ? kInfinity | (magnitude << (23 - F::mantissa)) : bits;
  return __builtin_bit_cast(float, bits | sign);
}
static inline float wide(E4m3 value) {
  return decode(value, 0x7f);
}
static inline float wide(E5m2 value) {
  return decode(value, 0x7c);
}

/// The value that is cast: `value` in FP32.
static inline float single(float value) {
  return value;
}
static inline float single(double value) {
  return float(value);
}
static inline float single(Bf16 value) {
  return wide(value);
}

/// *to = the larger, whatever other threads do.
static inline void raise(std::uint32_t* to, std::uint32_t value) {
  std::uint32_t seen = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (value > seen &&
         !__atomic_compare_exchange_n(to, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

/// Which elements of a flat operand are treated: begin .. end.
struct Span {
  std::int64_t begin, end;
};
/// \param i of the operation: the place of the first element in a sequence, then the window of the sequence
static inline Span window(const std::int64_t* i, std::int64_t length) {
  const std::int64_t begin = i[1] - i[0], end = i[2] - i[0];
  return {begin < 0 ? 0 : begin, end < length ? end : length};
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
