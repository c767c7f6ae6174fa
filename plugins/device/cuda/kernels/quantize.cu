/// Casts to FP8 with amax and counters, amax alone, and FP8 as numbers. Only integers meet in atomics, so the
/// order does not matter.
#include "plugins/device/cuda/kernels/byte_tile.cuh"
#include "plugins/device/cuda/kernels/cast.cuh"

namespace octachoron::cuda {
namespace {

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
