#include "plugins/comm/mpi/reduce.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "core/plugin/abi.h"

namespace octachoron::mpi {

namespace {

/// How an element of type T in memory is computed with.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored x) { return x; }
  static Stored store(Value x) { return x; }
};

struct Bf16 {
  using Stored = std::uint16_t;
  using Value = float;
  static Value load(Stored x) { return std::bit_cast<float>(std::uint32_t(x) << 16); }
  static Stored store(Value x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if (x != x) return Stored(bits >> 16 | 0x40);  // stays a NaN
    return Stored((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

template <class T>
T add(T a, T b) {
  if constexpr (std::is_same_v<T, std::int32_t>)
    return T(std::uint32_t(a) + std::uint32_t(b));  // wraps instead of being undefined
  else
    return a + b;
}

template <class T>
T maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a < b || b != b ? b : a;
  else
    return std::max(a, b);
}

template <class Type, int Reduction>
void reduce_as(std::span<const std::byte* const> inputs, std::int64_t count, std::byte* out) {
  using Stored = typename Type::Stored;
  constexpr std::int64_t kStrip = 1024;  // stays in the first-level cache
  typename Type::Value sum[kStrip];
  for (std::int64_t begin = 0; begin < count; begin += kStrip) {
    const std::int64_t n = std::min(kStrip, count - begin);
    const auto* first = reinterpret_cast<const Stored*>(inputs[0]) + begin;
    for (std::int64_t i = 0; i < n; ++i) sum[i] = Type::load(first[i]);
    for (const std::byte* input : inputs.subspan(1)) {
      const auto* x = reinterpret_cast<const Stored*>(input) + begin;
      for (std::int64_t i = 0; i < n; ++i)
        sum[i] = Reduction == OCT_SUM ? add(sum[i], Type::load(x[i])) : maximum(sum[i], Type::load(x[i]));
    }
    auto* result = reinterpret_cast<Stored*>(out) + begin;
    for (std::int64_t i = 0; i < n; ++i) result[i] = Type::store(sum[i]);
  }
}

using Function = void (*)(std::span<const std::byte* const>, std::int64_t, std::byte*);

template <class Type>
Function choose(int reduction) {
  if (reduction == OCT_SUM) return reduce_as<Type, OCT_SUM>;
  return reduction == OCT_MAX ? reduce_as<Type, OCT_MAX> : nullptr;
}

Function find(int dtype, int reduction) {
  switch (dtype) {
    case OCT_F32:
      return choose<Plain<float>>(reduction);
    case OCT_F64:
      return choose<Plain<double>>(reduction);
    case OCT_BF16:
      return choose<Bf16>(reduction);
    case OCT_I32:
      return choose<Plain<std::int32_t>>(reduction);
    case OCT_U32:
      return choose<Plain<std::uint32_t>>(reduction);
    case OCT_U64:
      return choose<Plain<std::uint64_t>>(reduction);
    default:
      return nullptr;
  }
}

}  // namespace

bool can_reduce(int dtype, int reduction) {
  return find(dtype, reduction) != nullptr;
}

void reduce(int dtype, int reduction, std::span<const std::byte* const> inputs, std::int64_t count,
            std::byte* out) {
  find(dtype, reduction)(inputs, count, out);
}

}  // namespace octachoron::mpi
