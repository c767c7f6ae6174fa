/// Fill, copy with conversion, addition.
#include "plugins/device/cpu/kernels/fp8.h"
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/support.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

template <class T>
void fill_with(const Call& call, T value) {
  const auto out = operand<T>(call, 0);
  for_pieces(call.threads, out.rows, out.columns, 1,
             [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
               T* to = out.row(r);
               for (std::int64_t c = begin; c < end; ++c) to[c] = value;
             });
}
template <class T>
void fill_float(const Call& call) {
  T value;
  store(&value, Wide<T>(call.operation.f[0]));
  fill_with<T>(call, value);
}
template <class T>
void fill_integer(const Call& call) {
  fill_with<T>(call, T(call.operation.f[0]));
}

/// Same type on both sides: bits are moved, so integers and any NaN survive.
template <class Bits>
void copy_bits(const Call& call) {
  const auto in = operand<const Bits>(call, 0);
  const auto out = operand<Bits>(call, 1);
  for_pieces(call.threads, in.rows, in.columns, 1, [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
    std::memcpy(out.row(r) + begin, in.row(r) + begin, std::size_t(end - begin) * sizeof(Bits));
  });
}
template <class In, class Out>
void convert(const Call& call) {
  const auto in = operand<const In>(call, 0);
  const auto out = operand<Out>(call, 1);
  for_pieces(call.threads, in.rows, in.columns, 1, [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
    const In* from = in.row(r);
    Out* to = out.row(r);
#pragma omp simd
    for (std::int64_t c = begin; c < end; ++c) store(to + c, wide(from[c]));
  });
}
template <>
void convert<float, double>(const Call& call) {
  const auto in = operand<const float>(call, 0);
  const auto out = operand<double>(call, 1);
  for_pieces(call.threads, in.rows, in.columns, 1, [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) out.row(r)[c] = in.row(r)[c];
  });
}
template <>
void convert<Bf16, double>(const Call& call) {
  const auto in = operand<const Bf16>(call, 0);
  const auto out = operand<double>(call, 1);
  for_pieces(call.threads, in.rows, in.columns, 1, [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) out.row(r)[c] = wide(in.row(r)[c]);
  });
}

template <class A, class B>
void add(const Call& call) {
  using W = decltype(Wide<A>{} + Wide<B>{});
  const auto a = operand<const A>(call, 0);
  const auto b = operand<const B>(call, 1);
  const auto bias = operand<const A>(call, 2);
  const auto out = operand<A>(call, 3);
  for_pieces(call.threads, a.rows, a.columns, 1, [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
    const A* left = a.row(r);
    const B* right = b.row(r);
    A* to = out.row(r);
    if (bias) {
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c)
        store(to + c, W(W(wide(left[c])) + W(wide(right[c])) + W(wide(bias.data[c]))));
    } else {
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c) store(to + c, W(W(wide(left[c])) + W(wide(right[c]))));
    }
  });
}

}  // namespace

Kernel fill_kernel(const oct_operation& operation) {
  switch (operation.operand[0].dtype) {
    case OCT_U8:
    case OCT_E4M3:  // zero has the bits of zero
    case OCT_E5M2:
      return fill_integer<std::uint8_t>;
    case OCT_I32:
      return fill_integer<std::int32_t>;
    case OCT_U32:
      return fill_integer<std::uint32_t>;
    case OCT_U64:
      return fill_integer<std::uint64_t>;
    default:
      return by_type(operation.operand[0].dtype,
                     [](auto tag) -> Kernel { return fill_float<decltype(tag)>; });
  }
}

Kernel copy_kernel(const oct_operation& operation) {
  const std::int32_t in = operation.operand[0].dtype, out = operation.operand[1].dtype;
  if (in == out) {
    switch (in) {
      case OCT_F64:
      case OCT_U64:
        return copy_bits<std::uint64_t>;
      case OCT_F32:
      case OCT_I32:
      case OCT_U32:
        return copy_bits<std::uint32_t>;
      case OCT_BF16:
      case OCT_F16:
        return copy_bits<std::uint16_t>;
      default:
        return copy_bits<std::uint8_t>;
    }
  }
  if (in == OCT_E4M3) return out == OCT_F32 ? convert<E4m3, float> : convert<E4m3, Bf16>;
  if (in == OCT_E5M2) return out == OCT_F32 ? convert<E5m2, float> : convert<E5m2, Bf16>;
  return by_type(in, [out](auto from) -> Kernel {
    return by_type(out, [](auto to) -> Kernel { return convert<decltype(from), decltype(to)>; });
  });
}

Kernel add_kernel(const oct_operation& operation) {
  const std::int32_t other = operation.operand[1].dtype;
  return by_type(operation.operand[0].dtype, [other](auto a) -> Kernel {
    return by_type(other, [](auto b) -> Kernel { return add<decltype(a), decltype(b)>; });
  });
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
