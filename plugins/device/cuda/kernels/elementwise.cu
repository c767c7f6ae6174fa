/// Fill, copy with conversion, addition, transpose.
#include <type_traits>

#include "core/plugin/dtype.h"
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

template <class Word>
struct Fill {
  Word* data;
  std::int64_t pitch;
  Word value;
  __device__ void operator()(std::int64_t row, std::int64_t column, int n) const {
    for (int i = 0; i < n; ++i) data[row * pitch + column + i] = value;
  }
};

template <class Word>
void fill_words(const Call& call, Word value) {
  const oct_matrix& m = call.operation.operand[0];
  map(call, m.rows, m.columns, Fill<Word>{data<Word>(call, 0), m.pitch, value});
}

std::uint16_t bf16_bits(float value) {
  std::uint32_t bits;
  static_assert(sizeof bits == sizeof value);
  __builtin_memcpy(&bits, &value, sizeof bits);
  if (value != value) return 0x7fff;
  return std::uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Same type on both sides: bits are moved, so integers and any NaN survive. By a kernel, since the runtime
/// makes the host wait for copies between two pinned memories.
template <class Word>
struct Move {
  const Word* in;
  Word* out;
  std::int64_t in_pitch, out_pitch;
  bool aligned;
  __device__ void operator()(std::int64_t row, std::int64_t column, int n) const {
    const Word* from = in + row * in_pitch + column;
    Word* to = out + row * out_pitch + column;
    if (aligned && n == kChunk) {
      using Piece = std::conditional_t<sizeof(Word) == 1, uint2, uint4>;
#pragma unroll
      for (int i = 0; i < int(kChunk * sizeof(Word) / sizeof(Piece)); ++i)
        reinterpret_cast<Piece*>(to)[i] = reinterpret_cast<const Piece*>(from)[i];
    } else {
      for (int i = 0; i < n; ++i) to[i] = from[i];
    }
  }
};

template <class Word>
void move_words(const Call& call) {
  const oct_matrix &in = call.operation.operand[0], &out = call.operation.operand[1];
  const Rows<Word> from = rows<Word>(call, 0), to = rows<Word>(call, 1);
  map(call, in.rows, in.columns,
      Move<Word>{from.data, to.data, in.pitch, out.pitch, from.aligned && to.aligned});
}

template <class In, class Out>
struct Convert {
  Rows<const In> in;
  Rows<Out> out;
  __device__ void operator()(std::int64_t row, std::int64_t column, int n) const {
    float v[kChunk];
    in.load(row, column, n, v);
    out.save(row, column, n, v);
  }
};

template <class A, class B>
struct Add {
  Rows<const A> a;
  Rows<const B> b;
  Rows<const A> bias;
  Rows<A> out;
  __device__ void operator()(std::int64_t row, std::int64_t column, int n) const {
    float x[kChunk], y[kChunk], z[kChunk];
    a.load(row, column, n, x);
    b.load(row, column, n, y);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) x[i] += y[i];
    if (bias.data != nullptr) {
      bias.load(0, column, n, z);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) x[i] += z[i];
    }
    out.save(row, column, n, x);
  }
};

constexpr int kTile = 64;

/// 64 x 64 elements by 256 threads: a warp reads and writes whole pieces of rows.
template <class Word>
__global__ void __launch_bounds__(256)
    transpose_kernel(const Word* in, std::int64_t in_pitch, Word* out, std::int64_t out_pitch,
                     std::int64_t rows, std::int64_t columns) {
  __shared__ Word tile[kTile][kTile + 4 / sizeof(Word)];
  const std::int64_t row = std::int64_t(blockIdx.x) * kTile, column = std::int64_t(blockIdx.y) * kTile;
  const int lane = threadIdx.x % kTile, group = threadIdx.x / kTile;
  for (int r = group; r < kTile; r += 4) {
    if (row + r < rows && column + lane < columns) tile[r][lane] = in[(row + r) * in_pitch + column + lane];
  }
  __syncthreads();
  for (int c = group; c < kTile; c += 4) {
    if (column + c < columns && row + lane < rows) out[(column + c) * out_pitch + row + lane] = tile[lane][c];
  }
}

template <class Word>
void transpose_words(const Call& call) {
  const oct_matrix &in = call.operation.operand[0], &out = call.operation.operand[1];
  const dim3 grid(unsigned(divide_up(in.rows, kTile)), unsigned(divide_up(in.columns, kTile)));
  launch(call, transpose_kernel<Word>, grid, 256, 0, data<const Word>(call, 0), in.pitch, data<Word>(call, 1),
         out.pitch, in.rows, in.columns);
}

}  // namespace

void fill(const Call& call) {
  const double value = call.operation.f[0];
  const std::int32_t type = call.operation.operand[0].dtype;
  switch (type) {
    case OCT_F64: {
      std::uint64_t bits;
      __builtin_memcpy(&bits, &value, sizeof bits);
      return fill_words(call, bits);
    }
    case OCT_U64:
      return fill_words(call, std::uint64_t(value));
    case OCT_BF16:
      return fill_words(call, bf16_bits(float(value)));
    case OCT_F32: {
      const float narrow = float(value);
      std::uint32_t bits;
      __builtin_memcpy(&bits, &narrow, sizeof bits);
      return fill_words(call, bits);
    }
    case OCT_I32:
      return fill_words(call, std::uint32_t(std::int32_t(value)));
    case OCT_U32:
      return fill_words(call, std::uint32_t(value));
    default:
      return fill_words(call, std::uint8_t(value));
  }
}

void copy(const Call& call) {
  const oct_matrix& in = call.operation.operand[0];
  if (in.dtype == call.operation.operand[1].dtype) {
    switch (size_of(DType(in.dtype))) {
      case 8:
        return move_words<std::uint64_t>(call);
      case 4:
        return move_words<std::uint32_t>(call);
      case 2:
        return move_words<std::uint16_t>(call);
      default:
        return move_words<std::uint8_t>(call);
    }
  }
  if (size_of(DType(in.dtype)) == 1) return decode_fp8(call);
  by_type(call, 0, [&](auto from) {
    by_type(call, 1, [&](auto to) {
      using In = decltype(from);
      using Out = decltype(to);
      map(call, in.rows, in.columns, Convert<In, Out>{rows<const In>(call, 0), rows<Out>(call, 1)});
    });
  });
}

void add(const Call& call) {
  const oct_matrix& m = call.operation.operand[0];
  by_type(call, 0, [&](auto first) {
    by_type(call, 1, [&](auto second) {
      using A = decltype(first);
      using B = decltype(second);
      map(call, m.rows, m.columns,
          Add<A, B>{rows<const A>(call, 0), rows<const B>(call, 1), rows<const A>(call, 2),
                    rows<A>(call, 3)});
    });
  });
}

void transpose(const Call& call) {
  switch (size_of(DType(call.operation.operand[0].dtype))) {
    case 4:
      return transpose_words<std::uint32_t>(call);
    case 2:
      return transpose_words<std::uint16_t>(call);
    default:
      return transpose_words<std::uint8_t>(call);
  }
}

}  // namespace octachoron::cuda
