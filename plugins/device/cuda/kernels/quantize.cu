/// Casts to FP8 with amax and counters, amax alone, and FP8 as numbers. Only integers meet in atomics, so the
/// order does not matter.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

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

/// Eight numbers as bytes, the first lowest.
template <bool E5m2>
__device__ uint2 cast(const float (&v)[kChunk], int n, float scale, Seen* seen) {
  float scaled[kChunk];
#pragma unroll
  for (int i = 0; i < kChunk; ++i) scaled[i] = __fmul_rn(v[i], scale);
  std::uint32_t pair[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) pair[i] = Format<E5m2>::pack(scaled[2 * i], scaled[2 * i + 1]);
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    if (i >= n) continue;
    const std::uint32_t bits = magnitude(v[i]), q = pair[i / 2] >> (8 * (i % 2)) & 0x7fu;
    const bool finite = bits < 0x7f800000u;
    seen->amax = max(seen->amax, bits);
    seen->nonfinite += finite ? 0 : 1;
    seen->saturated += finite && Format<E5m2>::saturates(scaled[i]) ? 1 : 0;
    seen->flushed += bits != 0 && q == 0 ? 1 : 0;
  }
  return make_uint2(pair[0] | pair[1] << 16, pair[2] | pair[3] << 16);
}

__device__ void save_bytes(std::uint8_t* to, uint2 bytes, int n, bool aligned) {
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
Bytes bytes_at(const Call& call, int k, std::int64_t column) {
  const std::int64_t pitch = call.operation.operand[k].pitch;
  auto* at = data<std::uint8_t>(call, k);
  if (at != nullptr) at += column;
  return {at, pitch, (reinterpret_cast<std::uintptr_t>(at) | std::uintptr_t(pitch)) % 8 == 0};
}

template <class T>
struct Quantize {
  Rows<const T> x;
  std::int64_t rows, columns;
  const float* scale;
  Bytes row, column;
  std::uint32_t* amax;
  unsigned long long* counters;
};

template <class T, bool E5m2>
__global__ void __launch_bounds__(256)
    row_kernel(Quantize<T> q, std::uint32_t per_row, std::uint32_t chunks) {
  const float scale = *q.scale;
  Seen seen;
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < chunks; i += gridDim.x * blockDim.x) {
    const std::uint32_t row = i / per_row;
    const std::int64_t c = std::int64_t(i - row * per_row) * kChunk, left = q.columns - c;
    const int n = left < kChunk ? int(left) : kChunk;
    float v[kChunk];
    q.x.load(row, c, n, v);
    const uint2 bytes = cast<E5m2>(v, n, scale, &seen);
    if (q.row.data != nullptr) save_bytes(q.row.data + row * q.row.pitch + c, bytes, n, q.row.aligned);
  }
  seen.add_to(q.amax, q.counters);
}

constexpr int kTile = 64;

/// 64 x 64 elements: read once, written as they are and transposed.
template <class T, bool E5m2>
__global__ void __launch_bounds__(256) tile_kernel(Quantize<T> q) {
  __shared__ std::uint8_t tile[kTile][kTile + 4];
  const float scale = *q.scale;
  const std::int64_t row = std::int64_t(blockIdx.x) * kTile, column = std::int64_t(blockIdx.y) * kTile;
  const int piece = threadIdx.x % 8 * kChunk;
  const auto count = [](std::int64_t left) { return left < 0 ? 0 : left < kChunk ? int(left) : kChunk; };
  Seen seen;
  for (int r = threadIdx.x / 8; r < kTile; r += 32) {
    const int n = row + r < q.rows ? count(q.columns - column - piece) : 0;
    if (n == 0) continue;
    float v[kChunk];
    q.x.load(row + r, column + piece, n, v);
    const uint2 bytes = cast<E5m2>(v, n, scale, &seen);
    if (q.row.data != nullptr)
      save_bytes(q.row.data + (row + r) * q.row.pitch + column + piece, bytes, n, q.row.aligned);
    reinterpret_cast<std::uint32_t*>(&tile[r][piece])[0] = bytes.x;
    reinterpret_cast<std::uint32_t*>(&tile[r][piece])[1] = bytes.y;
  }
  __syncthreads();
  for (int c = threadIdx.x / 8; c < kTile; c += 32) {
    const int n = column + c < q.columns ? count(q.rows - row - piece) : 0;
    if (n == 0) continue;
    std::uint32_t word[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kChunk; ++i) word[i / 4] |= std::uint32_t(tile[piece + i][c]) << (8 * (i % 4));
    save_bytes(q.column.data + (column + c) * q.column.pitch + row + piece, make_uint2(word[0], word[1]), n,
               q.column.aligned);
  }
  seen.add_to(q.amax, q.counters);
}

template <class T>
__global__ void __launch_bounds__(256)
    amax_kernel(Rows<const T> x, std::int64_t columns, std::uint32_t per_row, std::uint32_t chunks,
                std::uint32_t* amax) {
  std::uint32_t largest = 0;
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < chunks; i += gridDim.x * blockDim.x) {
    const std::uint32_t row = i / per_row;
    const std::int64_t c = std::int64_t(i - row * per_row) * kChunk, left = columns - c;
    float v[kChunk];
    x.load(row, c, left < kChunk ? int(left) : kChunk, v);
#pragma unroll
    for (int k = 0; k < kChunk; ++k) largest = max(largest, magnitude(v[k]));
  }
  raise_to_block_max(largest, amax);
}

template <class T, bool E5m2>
struct Decode {
  Rows<const std::uint8_t> in;
  Rows<T> out;
  /// Exponents are made too small by a power of two that is multiplied in, so that subnormal numbers need no
  /// case.
  static __device__ float number(std::uint32_t code) {
    const std::uint32_t size = code & 0x7f, sign = (code & 0x80) << 24;
    if (E5m2 ? size > 0x7c : size == 0x7f) return __uint_as_float(sign | 0x7fc00000u);
    if (E5m2 && size == 0x7c) return __uint_as_float(sign | 0x7f800000u);
    return __uint_as_float(sign | size << (E5m2 ? 21 : 20)) * (E5m2 ? 0x1p112f : 0x1p120f);
  }
  __device__ void operator()(std::int64_t row, std::int64_t column, int n) const {
    float v[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) v[i] = i < n ? number(*in.at(row, column + i)) : 0.f;
    out.save(row, column, n, v);
  }
};

/// The part of x that is treated: all of it, or the columns of a window.
struct Part {
  std::int64_t rows, first, columns;
  std::uint32_t per_row() const { return std::uint32_t(divide_up(columns, kChunk)); }
  std::uint32_t chunks() const { return std::uint32_t(rows) * per_row(); }
  unsigned blocks() const {
    return unsigned(divide_up(chunks(), 256) < 2048 ? divide_up(chunks(), 256) : 2048);
  }
};
Part part_of(const oct_operation& op, bool is_window) {
  const oct_matrix& x = op.operand[0];
  Part part = {x.rows, 0, x.columns};
  if (is_window) {
    const auto inside = [&](std::int64_t place) {
      return place < 0 ? 0 : place < x.columns ? place : x.columns;
    };
    part.first = inside(op.i[2] - op.i[1]);
    part.columns = inside(op.i[3] - op.i[1]) - part.first;
    if (part.columns < 0) part.columns = 0;
  }
  if (part.rows * divide_up(part.columns, kChunk) >= std::int64_t(1) << 31)
    throw std::invalid_argument("more than 2^34 elements in one operation");
  return part;
}

template <class T, bool E5m2>
void quantize_as(const Call& call, const Part& part) {
  const Quantize<T> q = {rows<const T>(call, 0, part.first),
                         part.rows,
                         part.columns,
                         data<const float>(call, 1),
                         bytes_at(call, 2, part.first),
                         bytes_at(call, 3, 0),
                         data<std::uint32_t>(call, 4),
                         data<unsigned long long>(call, 5)};
  if (call.operation.operand[3].rows > 0) {
    const dim3 grid(unsigned(divide_up(part.rows, kTile)), unsigned(divide_up(part.columns, kTile)));
    launch(call, tile_kernel<T, E5m2>, grid, 256, 0, q);
  } else {
    launch(call, row_kernel<T, E5m2>, dim3(part.blocks()), 256, 0, q, part.per_row(), part.chunks());
  }
}

}  // namespace

void decode_fp8(const Call& call) {
  const oct_matrix& m = call.operation.operand[0];
  by_type(call, 1, [&](auto tag) {
    using T = decltype(tag);
    const auto in = rows<const std::uint8_t>(call, 0);
    if (m.dtype == OCT_E5M2) return map(call, m.rows, m.columns, Decode<T, true>{in, rows<T>(call, 1)});
    map(call, m.rows, m.columns, Decode<T, false>{in, rows<T>(call, 1)});
  });
}

void quantize(const Call& call) {
  const oct_operation& op = call.operation;
  const Part part = part_of(op, op.i[0] == 1);
  const bool e5m2 = op.operand[op.operand[2].rows > 0 ? 2 : 3].dtype == OCT_E5M2;
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    if (e5m2) return quantize_as<T, true>(call, part);
    quantize_as<T, false>(call, part);
  });
}

void amax(const Call& call) {
  const oct_operation& op = call.operation;
  const Part part = part_of(op, op.i[4] == 1);
  auto* to = data<std::uint32_t>(call, 1);
  if (op.i[0] == 0 && !call.load) check(cudaMemsetAsync(to, 0, sizeof *to, call.stream), "clearing an amax");
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    launch(call, amax_kernel<T>, dim3(part.blocks()), 256, 0, rows<const T>(call, 0, part.first),
           part.columns, part.per_row(), part.chunks(), to);
  });
}

}  // namespace octachoron::cuda
