#pragma once
/// What all kernels share: element types, reads and writes of eight elements, sums over a block, launches.
/// Arithmetic is in FP32; where many numbers are summed, in FP64. Nothing is ever added by an atomic
/// operation on floats.
#include <cstdint>
#include <stdexcept>

#include "plugins/device/cuda/kernels/kernels.h"
#include "plugins/device/cuda/runtime.h"

namespace octachoron::cuda {

/// Elements of type BF16.
struct Bf16 {
  std::uint16_t bits;
};

inline __device__ float wide(float v) {
  return v;
}
inline __device__ float wide(Bf16 v) {
  return __uint_as_float(std::uint32_t(v.bits) << 16);
}
/// Two numbers rounded to nearest even, `low` in the low half.
inline __device__ std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
inline __device__ void store(float* to, float v) {
  *to = v;
}
inline __device__ void store(Bf16* to, float v) {
  to->bits = std::uint16_t(pack_bf16(v, 0.f));
}
inline __device__ float rounded(float v, float) {
  return v;
}
inline __device__ float rounded(float v, Bf16) {
  return __uint_as_float(pack_bf16(v, 0.f) << 16);
}

/// What lies in 16 bytes, as numbers.
template <class T>
struct Piece;
template <>
struct Piece<float> {
  static constexpr int n = 4;
  static __device__ void unpack(uint4 p, float (&v)[n]) {
    v[0] = __uint_as_float(p.x), v[1] = __uint_as_float(p.y);
    v[2] = __uint_as_float(p.z), v[3] = __uint_as_float(p.w);
  }
  static __device__ uint4 pack(const float (&v)[n]) {
    return make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]),
                      __float_as_uint(v[3]));
  }
};
template <>
struct Piece<Bf16> {
  static constexpr int n = 8;
  static __device__ void unpack(uint4 p, float (&v)[n]) {
    const std::uint32_t word[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[2 * i] = __uint_as_float(word[i] << 16);
      v[2 * i + 1] = __uint_as_float(word[i] & 0xffff0000u);
    }
  }
  static __device__ uint4 pack(const float (&v)[n]) {
    return make_uint4(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]),
                      pack_bf16(v[6], v[7]));
  }
};

inline constexpr int kChunk = 8;  ///< columns that a thread treats at a time

/// A matrix, read and written in chunks of eight columns: in pieces of 16 bytes where all rows are aligned.
template <class T>
struct Rows {
  T* data;
  std::int64_t pitch;
  bool aligned;

  __device__ T* at(std::int64_t row, std::int64_t column) const { return data + row * pitch + column; }
  /// Columns column .. column + n - 1, n <= 8; the rest of v is 0.
  __device__ void load(std::int64_t row, std::int64_t column, int n, float (&v)[kChunk]) const {
    const T* from = at(row, column);
    if (aligned && n == kChunk) {
      load8(from, v);
    } else {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) v[i] = i < n ? wide(from[i]) : 0.f;
    }
  }
  __device__ void save(std::int64_t row, std::int64_t column, int n, const float (&v)[kChunk]) const {
    auto* to = at(row, column);
    if (aligned && n == kChunk) {
      save8(to, v);
    } else {
#pragma unroll
      for (int i = 0; i < kChunk; ++i)
        if (i < n) store(to + i, v[i]);
    }
  }

 private:
  static __device__ void load8(const float* from, float (&v)[kChunk]) {
    const float4 a = *reinterpret_cast<const float4*>(from), b = *reinterpret_cast<const float4*>(from + 4);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
  }
  static __device__ void load8(const Bf16* from, float (&v)[kChunk]) {
    Piece<Bf16>::unpack(*reinterpret_cast<const uint4*>(from), v);
  }
  static __device__ void save8(float* to, const float (&v)[kChunk]) {
    *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
    *reinterpret_cast<float4*>(to + 4) = make_float4(v[4], v[5], v[6], v[7]);
  }
  static __device__ void save8(Bf16* to, const float (&v)[kChunk]) {
    *reinterpret_cast<uint4*>(to) = Piece<Bf16>::pack(v);
  }
};

/// Rows at `data`, told whether they are aligned.
template <class T>
Rows<T> rows_at(T* data, std::int64_t pitch) {
  const bool aligned = (reinterpret_cast<std::uintptr_t>(data) | std::uintptr_t(pitch) * sizeof(T)) % 16 == 0;
  return {data, pitch, aligned};
}
/// Operand k of the call, from its column `column` on.
template <class T>
Rows<T> rows(const Call& call, int k, std::int64_t column = 0) {
  return rows_at(static_cast<T*>(call.pointers[k]) + column, call.operation.operand[k].pitch);
}
template <class T>
T* data(const Call& call, int k) {
  return static_cast<T*>(call.pointers[k]);
}

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return divide_up(a, b) * b;
}

/// Launches the kernel, or only loads it.
template <class... P, class... A>
void launch(const Call& call, void (*kernel)(P...), dim3 grid, unsigned block, std::size_t shared,
            A... arguments) {
  if (call.load) {
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)), "loading a kernel");
    // Never less than another use of the kernel was promised.
    if (shared > 48 * 1024 && int(shared) > attributes.maxDynamicSharedSizeBytes) {
      const auto* function = reinterpret_cast<const void*>(kernel);
      check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)),
            "asking for shared memory");
      // Else the driver may leave room for one block where two fit.
      check(cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                                 cudaSharedmemCarveoutMaxShared),
            "asking for shared memory");
    }
    return;
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  kernel<<<grid, block, shared, call.stream>>>(P(arguments)...);
  check(cudaGetLastError(), "a launch");
}

/// choose(tag) with a tag of the element type of operand k.
template <class Choose>
void by_type(const Call& call, int k, Choose choose) {
  if (call.operation.operand[k].dtype == OCT_BF16) return choose(Bf16{});
  return choose(float{});
}

/// 2^x within 2^-22 and 1/x within 2^-23, in one instruction each; numbers below 2^-126 are 0. For results in
/// BF16.
inline __device__ float fast_exp2(float x) {
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x));
  return e;
}
inline __device__ float fast_reciprocal(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
inline constexpr float kLog2E = 1.4426950408889634f;

/// exp(x) as elements of type T deserve it. In BF16 the error is 2^-22 and |x| 2^-24 of the result.
template <class T>
inline __device__ float exponential(float x) {
  if constexpr (sizeof(T) == 2) return fast_exp2(x * kLog2E);
  return expf(x);
}

/// Sum over the warp, the same in all lanes.
template <class V>
inline __device__ V warp_sum(V v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  return v;
}
inline __device__ std::uint32_t warp_max(std::uint32_t v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v = max(v, __shfl_xor_sync(~0u, v, step));
  return v;
}

/// Sums of N numbers over the block, the same in all threads. \param shared room for N * 32 numbers, which
/// may be used again only after a __syncthreads()
template <int N>
inline __device__ void block_sum(double (&v)[N], double* shared) {
  const int warps = (blockDim.x + 31) / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    v[i] = warp_sum(v[i]);
    if (lane == 0) shared[i * 32 + warp] = v[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = warp_sum(lane < warps ? shared[i * 32 + lane] : 0.);
}

/// The largest word of the block joins `to`.
inline __device__ void raise_to_block_max(std::uint32_t v, std::uint32_t* to) {
  v = warp_max(v);
  if (threadIdx.x % 32 == 0 && v > *static_cast<volatile std::uint32_t*>(to)) atomicMax(to, v);
}
/// Bits that order as magnitudes do, NaN above infinity.
inline __device__ std::uint32_t magnitude(float v) {
  return __float_as_uint(v) & 0x7fffffffu;
}

/// Quotients of numbers below 2^31 by a number from 1 to 2^31, without division.
struct Divider {
  std::uint32_t divisor, magic;
  int shift = 0;

  explicit Divider(std::int64_t by) : divisor(by > 1 ? std::uint32_t(by) : 1) {
    while ((std::uint64_t(1) << shift) < divisor) ++shift;
    magic = std::uint32_t((((std::uint64_t(1) << shift) - divisor) << 32) / divisor + 1);
  }
  __device__ std::uint32_t of(std::uint32_t n) const { return (__umulhi(n, magic) + n) >> shift; }
};

/// f(row, column, n) for chunks that cover rows x columns.
template <class F>
__global__ void __launch_bounds__(256)
    map_kernel(F f, Divider per_row, std::uint32_t chunks, std::int64_t columns) {
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < chunks; i += gridDim.x * blockDim.x) {
    const std::uint32_t row = per_row.of(i);
    const std::int64_t column = std::int64_t(i - row * per_row.divisor) * kChunk, left = columns - column;
    f(row, column, left < kChunk ? int(left) : kChunk);
  }
}
template <class F>
void map(const Call& call, std::int64_t rows, std::int64_t columns, F f) {
  const std::int64_t per_row = divide_up(columns, kChunk), chunks = rows * per_row;
  if (chunks >= std::int64_t(1) << 31)
    throw std::invalid_argument("more than 2^34 elements in one operation");
  const std::int64_t blocks = divide_up(chunks, 256);
  launch(call, map_kernel<F>, dim3(unsigned(blocks < 4096 ? blocks : 4096)), 256, 0, f, Divider(per_row),
         std::uint32_t(chunks), columns);
}

}  // namespace octachoron::cuda
