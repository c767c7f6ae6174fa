/// Token and position embedding; the gradient of positions.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

template <class T>
struct Embedding {
  const std::int32_t* ids;
  Rows<const T> table;
  Rows<T> out;
  std::int64_t first, rows;
  __device__ void operator()(std::int64_t token, std::int64_t column, int n) const {
    const std::int64_t row = ids[token] - first;
    float v[kChunk] = {};
    if (row >= 0 && row < rows) table.load(row, column, n, v);
    out.save(token, column, n, v);
  }
};

template <class T>
struct Position {
  Rows<const T> x, table;
  Rows<T> out;
  std::int64_t first, sequence;
  __device__ void operator()(std::int64_t token, std::int64_t column, int n) const {
    float v[kChunk], add[kChunk];
    x.load(token, column, n, v);
    table.load((token + first) % sequence, column, n, add);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) v[i] += add[i];
    out.save(token, column, n, v);
  }
};

/// One place of the table: the tokens that stand there, in order.
template <class T, class G>
struct PositionBackward {
  Rows<const T> dout;
  Rows<G> dtable;
  std::int64_t first, sequence, tokens;
  bool accumulate;
  __device__ void operator()(std::int64_t place, std::int64_t column, int n) const {
    double sum[kChunk] = {};
    float v[kChunk];
    for (std::int64_t t = (place - first % sequence + sequence) % sequence; t < tokens; t += sequence) {
      dout.load(t, column, n, v);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sum[i] += double(v[i]);
    }
    if (accumulate) {
      dtable.load(place, column, n, v);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sum[i] += double(v[i]);
    }
#pragma unroll
    for (int i = 0; i < kChunk; ++i) v[i] = float(sum[i]);
    dtable.save(place, column, n, v);
  }
};

}  // namespace

void embedding(const Call& call) {
  const oct_operation& op = call.operation;
  by_type(call, 1, [&](auto tag) {
    using T = decltype(tag);
    map(call, op.operand[2].rows, op.operand[2].columns,
        Embedding<T>{data<const std::int32_t>(call, 0), rows<const T>(call, 1), rows<T>(call, 2), op.i[0],
                     op.operand[1].rows});
  });
}

void position(const Call& call) {
  const oct_operation& op = call.operation;
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    map(call, op.operand[0].rows, op.operand[0].columns,
        Position<T>{rows<const T>(call, 0), rows<const T>(call, 1), rows<T>(call, 2), op.i[0], op.i[1]});
  });
}

void position_backward(const Call& call) {
  const oct_operation& op = call.operation;
  by_type(call, 0, [&](auto from) {
    by_type(call, 1, [&](auto to) {
      using T = decltype(from);
      using G = decltype(to);
      map(call, op.i[1], op.operand[0].columns,
          PositionBackward<T, G>{rows<const T>(call, 0), rows<G>(call, 1), op.i[0], op.i[1],
                                 op.operand[0].rows, op.i[2] == 1});
    });
  });
}

}  // namespace octachoron::cuda
