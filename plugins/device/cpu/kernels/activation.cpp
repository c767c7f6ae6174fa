/// GELU (tanh form), SwiGLU and rotary embedding.
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/support.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

/// gelu(x) = x * logistic(z(x)), since 0.5 (1 + tanh u) = logistic(2 u). Beyond +-30 the logistic is 0 or 1
/// in every type; the limit keeps its argument finite. A NaN stays one.
template <class W>
struct Gelu {
  Logistic<W> s;
  W dz;
};
template <class W>
inline Gelu<W> gelu_at(W x) {
  constexpr W c = W(1.5957691216057307117597842397375);  // 2 sqrt(2 / pi)
  x = x < W(-30) ? W(-30) : x;
  x = x > W(30) ? W(30) : x;
  const W square = x * x;
  return {logistic(c * (x + W(0.044715) * square * x)), c * (W(1) + W(3 * 0.044715) * square)};
}

template <class T>
void gelu(const Call& call) {
  using W = Wide<T>;
  const auto x = operand<const T>(call, 0);
  const auto y = operand<T>(call, 1);
  for_pieces(call.threads, x.rows, x.columns, 8, [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
    const T* from = x.row(r);
    T* to = y.row(r);
#pragma omp simd
    for (std::int64_t c = begin; c < end; ++c) {
      const W v = wide(from[c]);
      store(to + c, v * gelu_at(v).s.value);
    }
  });
}

template <class T>
void gelu_backward(const Call& call) {
  using W = Wide<T>;
  const auto x = operand<const T>(call, 0), dy = operand<const T>(call, 1);
  const auto dx = operand<T>(call, 2);
  for_pieces(call.threads, x.rows, x.columns, 8, [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
    const T *from = x.row(r), *gradient = dy.row(r);
    T* to = dx.row(r);
#pragma omp simd
    for (std::int64_t c = begin; c < end; ++c) {
      const W v = wide(from[c]);
      const Gelu<W> g = gelu_at(v);
      store(to + c, wide(gradient[c]) * (g.s.value + v * g.s.slope * g.dz));
    }
  });
}

template <class T>
void swiglu(const Call& call) {
  using W = Wide<T>;
  const auto x = operand<const T>(call, 0);
  const auto y = operand<T>(call, 1);
  for_pieces(call.threads, y.rows, y.columns, 8, [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
    const T *gate = x.row(r), *up = gate + y.columns;
    T* to = y.row(r);
#pragma omp simd
    for (std::int64_t c = begin; c < end; ++c) {
      const W g = wide(gate[c]);
      store(to + c, g * logistic(g).value * wide(up[c]));
    }
  });
}

template <class T>
void swiglu_backward(const Call& call) {
  using W = Wide<T>;
  const auto x = operand<const T>(call, 0), dy = operand<const T>(call, 1);
  const auto dx = operand<T>(call, 2);
  const std::int64_t width = dy.columns;
  for_pieces(call.threads, dy.rows, width, 8, [=](std::int64_t r, std::int64_t begin, std::int64_t end) {
    const T *gate = x.row(r), *up = gate + width, *gradient = dy.row(r);
    T *dgate = dx.row(r), *dup = dgate + width;
#pragma omp simd
    for (std::int64_t c = begin; c < end; ++c) {
      const W g = wide(gate[c]), d = wide(gradient[c]);
      const Logistic<W> s = logistic(g);
      store(dgate + c, d * wide(up[c]) * (s.value + g * s.slope));
      store(dup + c, d * g * s.value);
    }
  });
}

/// cos and sin of one position, from the two tables: rows of D/2 cosines then D/2 sines, fine rows first.
template <class W>
inline void rotation(const double* table, std::int64_t half, std::int64_t offset, W sign, W* cosine,
                     W* sine) {
  const double* fine = table + offset % kRopeStep * 2 * half;
  const double* coarse = table + (kRopeStep + offset / kRopeStep) * 2 * half;
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    cosine[i] = W(fine[i] * coarse[i] - fine[half + i] * coarse[half + i]);
    sine[i] = sign * W(fine[half + i] * coarse[i] + fine[i] * coarse[half + i]);
  }
}

template <class T>
void rope(const Call& call) {
  using W = Wide<T>;
  const auto qkv = operand<T>(call, 0);
  const std::int64_t* i = call.operation.i;
  const std::int64_t sequence = i[0], heads = i[1] + i[2], size = i[3], half = size / 2;
  const W sign = i[4] < 0 ? W(-1) : W(1);
  const double* table = call.table;
  parallel_for(call.threads, qkv.rows, 4 * heads * size, [=](std::int64_t r) {
    alignas(64) W cosine[128], sine[128];
    rotation<W>(table, half, r % sequence, sign, cosine, sine);
    for (std::int64_t h = 0; h < heads; ++h) {
      T *low = qkv.row(r) + h * size, *high = low + half;
#pragma omp simd
      for (std::int64_t k = 0; k < half; ++k) {
        const W a = wide(low[k]), b = wide(high[k]);
        store(low + k, a * cosine[k] - b * sine[k]);
        store(high + k, b * cosine[k] + a * sine[k]);
      }
    }
  });
}

}  // namespace

Kernel gelu_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype, [](auto tag) -> Kernel { return gelu<decltype(tag)>; });
}
Kernel gelu_backward_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype, [](auto tag) -> Kernel { return gelu_backward<decltype(tag)>; });
}
Kernel swiglu_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype, [](auto tag) -> Kernel { return swiglu<decltype(tag)>; });
}
Kernel swiglu_backward_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype,
                 [](auto tag) -> Kernel { return swiglu_backward<decltype(tag)>; });
}
Kernel rope_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype, [](auto tag) -> Kernel { return rope<decltype(tag)>; });
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
