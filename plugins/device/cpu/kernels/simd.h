#pragma once
/// Element types and short vectors. Included by kernel sources only: everything is in the namespace of the
/// instruction set. Eight-lane vectors have the same meaning, lane by lane, on every instruction set.
#include <cmath>
#include <cstring>

#include "plugins/device/cpu/kernels/kernels.h"

namespace octachoron::cpu::OCT_CPU_ISA {

template <class T>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};
/// The type that elements of T are computed in.
template <class T>
using Wide = typename WideOf<T>::type;

static inline float wide(float value) {
  return value;
}
static inline double wide(double value) {
  return value;
}
static inline float wide(Bf16 value) {
  return __builtin_bit_cast(float, std::uint32_t(value.bits) << 16);
}

static inline std::uint16_t bf16_bits(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return std::uint16_t((bits & 0x7fffffffu) > 0x7f800000u ? quiet : nearest);
}
/// FP64 to FP32 by rounding to odd, so that a second rounding gives the nearest value of the narrow type.
static inline float to_odd(double value) {
  const float nearest = float(value);
  auto bits = __builtin_bit_cast(std::uint32_t, nearest);
  const double back = nearest;
  if (back == value || value != value || (bits & 1u)) return nearest;
  const bool above = (back > value) == (value > 0);  // away from zero, perhaps to infinity
  bits = above ? bits - 1 : bits;
  return __builtin_bit_cast(float, bits | 1u);
}

static inline void store(float* to, float value) {
  *to = value;
}
static inline void store(float* to, double value) {
  *to = float(value);
}
static inline void store(double* to, double value) {
  *to = value;
}
static inline void store(Bf16* to, float value) {
  to->bits = bf16_bits(value);
}
static inline void store(Bf16* to, double value) {
  to->bits = bf16_bits(to_odd(value));
}

typedef float F4 __attribute__((vector_size(16)));
typedef float F8 __attribute__((vector_size(32)));
typedef std::int32_t I8 __attribute__((vector_size(32)));
typedef double D4 __attribute__((vector_size(32)));

/// Eight doubles in two halves: the compiler splits a 64-byte vector into single lanes where there is no
/// AVX512.
struct D8 {
  D4 low, high;
  double operator[](int lane) const { return lane < 4 ? low[lane] : high[lane - 4]; }
  D8& operator+=(const D8& b) { return low += b.low, high += b.high, *this; }
  friend D8 operator-(const D8& a, const D8& b) { return {a.low - b.low, a.high - b.high}; }
  friend D8 operator*(const D8& a, const D8& b) { return {a.low * b.low, a.high * b.high}; }
  friend D8 operator-(const D8& a, double b) { return {a.low - b, a.high - b}; }
  friend D8 operator*(const D8& a, double b) { return {a.low * b, a.high * b}; }
};

template <class W>
struct Vector8 {
  using type = F8;
};
template <>
struct Vector8<double> {
  using type = D8;
};
template <class W>
using V8 = typename Vector8<W>::type;

static inline F8 load8(const float* from) {
  F8 v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
static inline D8 load8(const double* from) {
  D8 v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
static inline F8 load8(const Bf16* from) {
  typedef std::uint16_t Half __attribute__((vector_size(16)));
  typedef std::uint32_t Word __attribute__((vector_size(32)));
  Half half;
  std::memcpy(&half, from, sizeof half);
  return F8(__builtin_convertvector(half, Word) << 16);
}
template <class W>
static inline void store8(W* to, V8<W> v) {
  std::memcpy(to, &v, sizeof v);
}
static inline D8 to_double(F8 v) {
  const F4 low = {v[0], v[1], v[2], v[3]}, high = {v[4], v[5], v[6], v[7]};
  return {__builtin_convertvector(low, D4), __builtin_convertvector(high, D4)};
}
static inline D8 to_double(D8 v) {
  return v;
}
/// Lane by lane the larger of the two; the second where either is NaN.
static inline F8 larger8(F8 a, F8 b) {
  return a > b ? a : b;
}
static inline D8 larger8(D8 a, D8 b) {
  return {a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}

/// Pairwise sum of the lanes.
template <class V>
static inline auto sum_lanes(V v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/// Sum over i < n of term, in FP64, in eight running sums whatever the instruction set.
/// \param term8 (i) -> vector of terms i .. i+7; \param term (i) -> one term
template <class Term8, class Term>
static inline double sum_double(std::int64_t n, Term8 term8, Term term) {
  D8 sums = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) sums += to_double(term8(i));
  double tail = 0;
  for (; i < n; ++i) tail += double(term(i));
  return sum_lanes(sums) + tail;
}

/// e^x with an error below 2 units in the last place, 0 and infinity beyond the range, NaN for NaN.
/// Branch-free. \tparam F float or a vector of it, \tparam I the integer of the same shape
template <class F, class I>
static inline F exponential_f32(F x) {
  const F lowest = F{} - 105.f, highest = F{} + 89.f;
  x = x < lowest ? lowest : x;
  x = x > highest ? highest : x;
  const F shifted = x * 1.44269504088896341f + 12582912.f;  // 1.5 * 2^23: the integer lands in the low bits
  const F n = shifted - 12582912.f;
  const F r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  F p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const F e = (p * r) * r + r + 1.f;
  const I power = __builtin_bit_cast(I, shifted) - 0x4b400000;
  const I half = power >> 1;  // two factors: 2^power itself may not be a normal number
  return e * __builtin_bit_cast(F, (half + 127) << 23) * __builtin_bit_cast(F, (power - half + 127) << 23);
}
static inline float exponential(float x) {
  return exponential_f32<float, std::int32_t>(x);
}
static inline double exponential(double x) {
  return ::exp(x);
}
static inline F8 exponential(F8 x) {
  return exponential_f32<F8, I8>(x);
}
static inline D8 exponential(D8 x) {
  for (int lane = 0; lane < 4; ++lane) {
    x.low[lane] = ::exp(x.low[lane]);
    x.high[lane] = ::exp(x.high[lane]);
  }
  return x;
}

/// The logistic function and its derivative s (1 - s), without cancellation on either side.
template <class W>
struct Logistic {
  W value, slope;
};
template <class W>
static inline Logistic<W> logistic(W z) {
  const W e = exponential(z < 0 ? z : -z);
  const W q = W(1) / (W(1) + e);
  return {z < 0 ? e * q : q, e * q * q};
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
