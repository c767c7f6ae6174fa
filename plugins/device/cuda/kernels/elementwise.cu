/// Fill, copy with conversion, addition.
#include <type_traits>

#include "core/plugin/dtype.h"
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

/// Pieces of the rows of a matrix, numbered through: one row if there are no gaps.
struct Pieces {
  Divider per_row;
  std::int64_t count;
};
/// \param in_piece elements of a piece. \param dense whether all matrices have rows without gaps
Pieces pieces_of(const oct_matrix& m, std::int64_t in_piece, bool dense) {
  const std::int64_t in_row = m.columns / in_piece, count = m.rows * in_row;
  if (count >= std::int64_t(1) << 31)
    throw std::invalid_argument("more than 2^31 pieces of 16 bytes in one operation");
  return {Divider(dense ? count : in_row), count};
}

constexpr int kInFlight = 4, kThreads = 256;

/// f.read(row, piece, k), k < 4, and then f.write(row, piece, k) for the same: four pieces of a thread are on
/// their way at a time, and those of a warp lie side by side.
template <class F>
__global__ void __launch_bounds__(kThreads) pieces_kernel(F f, Divider per_row, std::uint32_t count) {
  const std::uint32_t first = blockIdx.x * (kInFlight * kThreads) + threadIdx.x;
  std::uint32_t row[kInFlight], piece[kInFlight];
#pragma unroll
  for (int k = 0; k < kInFlight; ++k) {
    const std::uint32_t i = first + k * kThreads;
    row[k] = per_row.of(i), piece[k] = i - row[k] * per_row.divisor;
    if (i < count) f.read(row[k], piece[k], k);
  }
#pragma unroll
  for (int k = 0; k < kInFlight; ++k)
    if (first + k * kThreads < count) f.write(row[k], piece[k], k);
}
template <class F>
void launch_pieces(const Call& call, F f, const Pieces& p) {
  launch(call, pieces_kernel<F>, dim3(unsigned(divide_up(p.count, kInFlight * kThreads))), kThreads, 0, f,
         p.per_row, std::uint32_t(p.count));
}

template <class Word>
struct Fill {
  Word* data;
  std::int64_t pitch;
  Word value;
  __device__ void operator()(std::int64_t row, std::int64_t column, int n) const {
    for (int i = 0; i < n; ++i) data[row * pitch + column + i] = value;
  }
};
struct FillPieces {
  uint4* data;
  std::int64_t pitch;
  uint4 value;
  __device__ void read(std::uint32_t, std::uint32_t, int) {}
  __device__ void write(std::uint32_t row, std::uint32_t piece, int) { data[row * pitch + piece] = value; }
};

template <class Word>
void fill_words(const Call& call, Word value) {
  constexpr std::int64_t in_piece = 16 / sizeof(Word);
  const oct_matrix& m = call.operation.operand[0];
  const bool whole = rows<Word>(call, 0).aligned && m.columns % in_piece == 0;
  if (whole || call.load) {
    Word words[in_piece];
    for (Word& word : words) word = value;
    uint4 piece;
    __builtin_memcpy(&piece, words, sizeof piece);
    launch_pieces(call, FillPieces{data<uint4>(call, 0), m.pitch / in_piece, piece},
                  pieces_of(m, in_piece, m.pitch == m.columns));
  }
  if (whole && !call.load) return;
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
  __device__ void operator()(std::int64_t row, std::int64_t column, int n) const {
    for (int i = 0; i < n; ++i) out[row * out_pitch + column + i] = in[row * in_pitch + column + i];
  }
};
struct MovePieces {
  const uint4* in;
  uint4* out;
  std::int64_t in_pitch, out_pitch;
  uint4 kept[kInFlight];
  __device__ void read(std::uint32_t row, std::uint32_t piece, int k) {
    kept[k] = in[row * in_pitch + piece];
  }
  __device__ void write(std::uint32_t row, std::uint32_t piece, int k) {
    out[row * out_pitch + piece] = kept[k];
  }
};

template <class Word>
void move_words(const Call& call) {
  constexpr std::int64_t in_piece = 16 / sizeof(Word);
  const oct_matrix &in = call.operation.operand[0], &out = call.operation.operand[1];
  const bool whole = rows<Word>(call, 0).aligned && rows<Word>(call, 1).aligned && in.columns % in_piece == 0;
  if (whole || call.load) {
    const MovePieces move = {data<const uint4>(call, 0), data<uint4>(call, 1), in.pitch / in_piece,
                             out.pitch / in_piece};
    launch_pieces(call, move, pieces_of(in, in_piece, in.pitch == in.columns && out.pitch == in.columns));
  }
  if (whole && !call.load) return;
  map(call, in.rows, in.columns,
      Move<Word>{data<const Word>(call, 0), data<Word>(call, 1), in.pitch, out.pitch});
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

/// Four numbers: 16 bytes in FP32, 8 in BF16.
inline __device__ float4 load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}
inline __device__ float4 load4(const Bf16* from) {
  const uint2 v = *reinterpret_cast<const uint2*>(from);
  return make_float4(__uint_as_float(v.x << 16), __uint_as_float(v.x & 0xffff0000u),
                     __uint_as_float(v.y << 16), __uint_as_float(v.y & 0xffff0000u));
}
inline __device__ void save4(float* to, float4 v) {
  *reinterpret_cast<float4*>(to) = v;
}
inline __device__ void save4(Bf16* to, float4 v) {
  *reinterpret_cast<uint2*>(to) = make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
}
template <class In, class Out>
struct ConvertPieces {
  Rows<const In> in;
  Rows<Out> out;
  float4 kept[kInFlight];
  __device__ void read(std::uint32_t row, std::uint32_t piece, int k) {
    kept[k] = load4(in.at(row, std::int64_t(piece) * 4));
  }
  __device__ void write(std::uint32_t row, std::uint32_t piece, int k) {
    save4(out.at(row, std::int64_t(piece) * 4), kept[k]);
  }
};

template <class In, class Out>
void convert(const Call& call) {
  const oct_matrix &in = call.operation.operand[0], &out = call.operation.operand[1];
  const Rows<const In> from = rows<const In>(call, 0);
  const Rows<Out> to = rows<Out>(call, 1);
  const bool whole = from.aligned && to.aligned && in.columns % 4 == 0;
  if (whole || call.load) {
    launch_pieces(call, ConvertPieces<In, Out>{from, to},
                  pieces_of(in, 4, in.pitch == in.columns && out.pitch == in.columns));
  }
  if (whole && !call.load) return;
  map(call, in.rows, in.columns, Convert<In, Out>{from, to});
}

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
      convert<In, Out>(call);
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

}  // namespace octachoron::cuda
