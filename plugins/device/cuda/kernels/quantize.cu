/// Casts to FP8 with amax and counters, amax alone, and FP8 as numbers. Only integers meet in atomics, so the
/// order does not matter.
#include "plugins/device/cuda/kernels/byte_tile.cuh"

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

/// Whether one of eight codes is a zero or a NaN.
__device__ bool has_zero_or_nan(uint2 codes) {
  const std::uint32_t a = codes.x & 0x7f7f7f7fu, b = codes.y & 0x7f7f7f7fu;
  const std::uint32_t nan = (a + 0x01010101u) | (b + 0x01010101u);
  const std::uint32_t all_numbers = (a + 0x7f7f7f7fu) & (b + 0x7f7f7f7fu);
  return ((nan | ~all_numbers) & 0x80808080u) != 0;
}

/// Eight numbers as bytes, the first lowest. They are looked at one by one only where the largest is too
/// large or a code is special.
template <bool E5m2>
__device__ uint2 cast(const float (&v)[kChunk], int n, float scale, Seen* seen) {
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

/// The chunks of a matrix, numbered through.
struct Chunks {
  Divider per_row;
  std::uint32_t count;
  std::int64_t columns;
};
struct Chunk {
  std::uint32_t row;
  std::int64_t column;
  int n;
};
__device__ Chunk chunk_at(const Chunks& all, std::uint32_t i) {
  const std::uint32_t row = all.per_row.of(i);
  const std::int64_t column = std::int64_t(i - row * all.per_row.divisor) * kChunk,
                     left = all.columns - column;
  return {row, column, left < kChunk ? int(left) : kChunk};
}

/// Two chunks of a thread are on their way at a time.
template <class T, bool E5m2>
__global__ void __launch_bounds__(256) row_kernel(Quantize<T> q, Chunks all) {
  const float scale = *q.scale;
  const std::uint32_t step = gridDim.x * blockDim.x;
  Seen seen;
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < all.count; i += 2 * step) {
    const Chunk one = chunk_at(all, i), two = i + step < all.count ? chunk_at(all, i + step) : Chunk{0, 0, 0};
    float v[2][kChunk];
    if (q.x.aligned && one.n == kChunk && two.n == kChunk) {
      q.x.load(one.row, one.column, kChunk, v[0]);
      q.x.load(two.row, two.column, kChunk, v[1]);
    } else {
      q.x.load(one.row, one.column, one.n, v[0]);
      q.x.load(two.row, two.column, two.n, v[1]);
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const Chunk& here = k == 0 ? one : two;
      if (here.n == 0) continue;
      const uint2 codes = cast<E5m2>(v[k], here.n, scale, &seen);
      if (q.row.data != nullptr)
        save_bytes(q.row.data + here.row * q.row.pitch + here.column, codes, here.n, q.row.aligned);
    }
  }
  seen.add_to(q.amax, q.counters);
}

/// 128 x 64 elements: read once, written as they are and transposed. A thread has eight columns of four rows.
template <class T, bool E5m2>
__global__ void __launch_bounds__(256) tile_kernel(Quantize<T> q, bool column_aligned) {
  using Tile = ByteTile<64>;
  __shared__ Tile tile;
  const float scale = *q.scale;
  const std::int64_t row = std::int64_t(blockIdx.x) * Tile::kRows, column = std::int64_t(blockIdx.y) * 64;
  const int first = int(threadIdx.x) % 8 * kChunk, quad = int(threadIdx.x) / 8;
  const std::int64_t top = row + 4 * quad, here = column + first, left = q.columns - here;
  const int n = left < 0 ? 0 : left < kChunk ? int(left) : kChunk;
  float v[4][kChunk];
  if (q.x.aligned && row + Tile::kRows <= q.rows && column + 64 <= q.columns) {
#pragma unroll
    for (int r = 0; r < 4; ++r) q.x.load(top + r, here, kChunk, v[r]);
  } else {
#pragma unroll
    for (int r = 0; r < 4; ++r) q.x.load(top + r, here, top + r < q.rows ? n : 0, v[r]);
  }
  Seen seen;
  std::uint32_t low[4], high[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int exist = top + r < q.rows ? n : 0;
    const uint2 codes = cast<E5m2>(v[r], exist, scale, &seen);
    low[r] = codes.x, high[r] = codes.y;
    if (q.row.data != nullptr && exist > 0)
      save_bytes(q.row.data + (top + r) * q.row.pitch + here, codes, exist, q.row.aligned);
  }
  turn(low);
  turn(high);
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    tile.put(first + c, quad, low[c]);
    tile.put(first + 4 + c, quad, high[c]);
  }
  __syncthreads();
  tile.save(q.column.data + column * q.column.pitch + row, q.column.pitch, column_aligned, q.rows - row,
            q.columns - column);
  seen.add_to(q.amax, q.counters);
}

template <class T>
__global__ void __launch_bounds__(256) amax_kernel(Rows<const T> x, Chunks all, std::uint32_t* amax) {
  std::uint32_t largest = 0;
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < all.count; i += gridDim.x * blockDim.x) {
    const Chunk here = chunk_at(all, i);
    float v[kChunk];
    x.load(here.row, here.column, here.n, v);
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
  Chunks chunks() const {
    const std::int64_t per_row = divide_up(columns, kChunk);
    return {Divider(per_row), std::uint32_t(rows * per_row), columns};
  }
  unsigned blocks() const {
    const std::int64_t wanted = divide_up(chunks().count, 256);
    return unsigned(wanted < 2048 ? wanted : 2048);
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
    const dim3 grid(unsigned(divide_up(part.rows, 128)), unsigned(divide_up(part.columns, 64)));
    launch(call, tile_kernel<T, E5m2>, grid, 256, 0, q, rows<std::uint8_t>(call, 3).aligned);
  } else {
    launch(call, row_kernel<T, E5m2>, dim3(part.blocks()), 256, 0, q, part.chunks());
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
           part.chunks(), to);
  });
}

}  // namespace octachoron::cuda
