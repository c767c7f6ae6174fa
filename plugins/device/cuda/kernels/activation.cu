/// GELU (tanh form), SwiGLU and their gradients.
#include "plugins/device/cuda/kernels/cast.cuh"

namespace octachoron::cuda {
namespace {

/// The logistic function and its derivative s (1 - s), without cancellation on either side.
struct Logistic {
  float value, slope;
};
template <class T>
__device__ Logistic logistic(float z) {
  const float e = exponential<T>(-fabsf(z)), q = sizeof(T) == 2 ? fast_reciprocal(1.f + e) : 1.f / (1.f + e);
  return {z < 0 ? e * q : q, e * q * q};
}

/// gelu(x) = x * logistic(z(x)), since 0.5 (1 + tanh u) = logistic(2 u). Where x^2 > 1000 the logistic is 0
/// or 1 in every type; the limit keeps the slope of z finite. A NaN stays one.
struct Gelu {
  Logistic s;
  float dz;
};
template <class T>
__device__ Gelu gelu_at(float x) {
  constexpr float c = 1.5957691216057307f, a = c * 0.044715f;  // 2 sqrt(2 / pi)
  const float square = fminf(x * x, 1000.f);
  return {logistic<T>(x * (c + a * square)), c + 3 * a * square};
}

template <class T>
struct GeluForward {
  Rows<const T> x;
  template <class Result>
  __device__ void operator()(std::int64_t row, std::int64_t column, int n, Result& y) const {
    float v[kChunk];
    x.load(row, column, n, v);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) v[i] *= gelu_at<T>(v[i]).s.value;
    y(row, column, n, v);
  }
};

template <class T>
struct GeluBackward {
  Rows<const T> x, dy;
  template <class Result>
  __device__ void operator()(std::int64_t row, std::int64_t column, int n, Result& dx) const {
    float v[kChunk], d[kChunk];
    x.load(row, column, n, v);
    dy.load(row, column, n, d);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const Gelu g = gelu_at<T>(v[i]);
      d[i] *= g.s.value + v[i] * g.s.slope * g.dz;
    }
    dx(row, column, n, d);
  }
};

template <class T>
struct SwigluForward {
  Rows<const T> gate, up;
  template <class Result>
  __device__ void operator()(std::int64_t row, std::int64_t column, int n, Result& y) const {
    float g[kChunk], u[kChunk];
    gate.load(row, column, n, g);
    up.load(row, column, n, u);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) g[i] = g[i] * logistic<T>(g[i]).value * u[i];
    y(row, column, n, g);
  }
};

template <class T>
struct SwigluBackward {
  Rows<const T> gate, up, dy;
  std::int64_t width;  ///< of the gate
  template <class Result>
  __device__ void operator()(std::int64_t row, std::int64_t column, int n, Result& dx) const {
    float g[kChunk], u[kChunk], d[kChunk];
    gate.load(row, column, n, g);
    up.load(row, column, n, u);
    dy.load(row, column, n, d);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const Logistic s = logistic<T>(g[i]);
      u[i] = d[i] * u[i] * (s.value + g[i] * s.slope);
      d[i] = d[i] * g[i] * s.value;
    }
    dx(row, column, n, u);
    dx(row, column + width, n, d);
  }
};

/// f with results of type T, over the rows and columns of operand k.
template <class T, class F>
void run(const Call& call, int k, F f) {
  const oct_matrix& m = call.operation.operand[k];
  with_result<T>(call, [&](auto to) { map_to(call, m.rows, m.columns, f, to); });
}

}  // namespace

void gelu(const Call& call) {
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    run<T>(call, 0, GeluForward<T>{rows<const T>(call, 0)});
  });
}

void gelu_backward(const Call& call) {
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    run<T>(call, 0, GeluBackward<T>{rows<const T>(call, 0), rows<const T>(call, 1)});
  });
}

void swiglu(const Call& call) {
  const oct_matrix& x = call.operation.operand[0];
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    const SwigluForward<T> f = {rows<const T>(call, 0), rows<const T>(call, 0, x.columns / 2)};
    with_result<T>(call, [&](auto to) { map_to(call, x.rows, x.columns / 2, f, to); });
  });
}

void swiglu_backward(const Call& call) {
  const std::int64_t width = call.operation.operand[1].columns;
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    const SwigluBackward<T> f = {rows<const T>(call, 0), rows<const T>(call, 0, width),
                                 rows<const T>(call, 1), width};
    with_result<T>(call, [&](auto to) {
      to.shift(width);
      map_to(call, call.operation.operand[1].rows, width, f, to);
    });
  });
}

}  // namespace octachoron::cuda
