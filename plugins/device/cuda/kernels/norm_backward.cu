/// Gradients of LayerNorm and RMSNorm: dx with the partial sums of dweight and dbias in one pass over the
/// rows, then the sums of these.
#include <type_traits>

#include "plugins/device/cuda/kernels/cast.cuh"
#include "plugins/device/cuda/kernels/column_sum.cuh"
#include "plugins/device/cuda/kernels/team.cuh"

namespace octachoron::cuda {
namespace {

template <class T>
struct Backward {
  Rows<const T> dy, x, weight, residual;
  const float* statistics;
  std::int64_t pitch, rows, columns;
  float *dweight, *dbias;  // [blocks, columns]; dbias may be null
  bool rms;
};

/// One row's two means: of g = dy * weight, and of g * normalised x.
struct Means {
  float shift, slope;
};
template <class T>
__device__ Means means(const Backward<T>& b, double g, double gx, double* shared) {
  double sums[2] = {g, gx};
  block_sum(sums, shared);
  return {b.rms ? 0.f : float(sums[0] / double(b.columns)), float(sums[1] / double(b.columns))};
}

/// How the rows that fit are shared out. Pure, and a matter of the matrix alone: so is the order of all sums.
struct Shape {
  bool fits;        ///< columns in whole pieces, not too many
  unsigned block;   ///< threads
  int team_warps;   ///< that treat a row together
  int pieces;       ///< of a thread
  unsigned blocks;  ///< parts of the sums over rows
};
/// Two blocks of 256 threads, or one of 512, for each of 132 processors, all of them at work from begin to
/// end.
Shape shape_of(const oct_matrix& x) {
  const bool narrow = x.dtype == OCT_BF16;
  const std::int64_t in_piece = narrow ? 8 : 4, most = narrow ? 3 : 4,
                     pieces = divide_up(x.columns, in_piece);
  Shape s = {};
  s.team_warps = 1;
  while (s.team_warps < 16 && pieces > most * 32 * s.team_warps) s.team_warps *= 2;
  s.pieces = int(divide_up(pieces, 32 * s.team_warps));
  s.fits = x.columns % in_piece == 0 && x.columns > 0 && s.pieces <= most;
  s.block = s.team_warps == 16 ? 512 : 256;
  const std::int64_t resident = s.block == 512 ? 132 : 264, teams = s.block / 32 / unsigned(s.team_warps);
  const std::int64_t wanted = divide_up(x.rows, teams);
  s.blocks = unsigned(wanted < 1 ? 1 : wanted < resident ? wanted : resident);
  return s;
}
/// Rows that a thread has in shared memory, one of them at work.
constexpr int stages_of(int pieces) {
  return pieces <= 2 ? 3 : 2;
}

/// The pieces of one thread in rows that are on their way.
template <class T, int K>
struct Ahead {
  const Backward<T>& b;
  const Team<true>& team;
  uint4* slots;
  int pieces;

  __device__ int place(int k) const { return k * team.threads + team.place; }
  __device__ uint4* slot(int stage, int operand, int k) const {
    return slots + ((stage * 3 + operand) * K + k) * int(blockDim.x) + threadIdx.x;
  }
  /// A group of copies, empty beyond the last row.
  __device__ void fetch(std::int64_t row, int stage) const {
    if (row < b.rows) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        if (place(k) >= pieces) continue;
        const int column = place(k) * Piece<T>::n;
        copy_ahead(slot(stage, 0, k), b.dy.at(row, column));
        copy_ahead(slot(stage, 1, k), b.x.at(row, column));
        if (b.residual.data != nullptr) copy_ahead(slot(stage, 2, k), b.residual.at(row, column));
      }
    }
    end_group_of_copies();
  }
};

/// Statistics of one row.
struct Row {
  float mean, inverse;
};
template <class T>
__device__ Row row_at(const Backward<T>& b, std::int64_t r) {
  return r < b.rows ? Row{b.statistics[r * b.pitch], b.statistics[r * b.pitch + 1]} : Row{0, 0};
}

/// The sums of the block's teams, by way of the shared memory that rows no longer need.
template <class T, int K, int n>
__device__ void save_parts(const Backward<T>& b, const Ahead<T, K>& ahead, const float (&dw)[K][n],
                           const float (&db)[K][n]) {
  const int columns = int(b.columns), teams = ahead.team.teams();
  auto* sums = reinterpret_cast<float4*>(ahead.slots);  // [teams][2][columns]
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (ahead.place(k) >= ahead.pieces) continue;
#pragma unroll
    for (int i = 0; i < n; i += 4) {
      const int at = (ahead.team.number * 2 * columns + ahead.place(k) * n + i) / 4;
      sums[at] = make_float4(dw[k][i], dw[k][i + 1], dw[k][i + 2], dw[k][i + 3]);
      sums[at + columns / 4] = make_float4(db[k][i], db[k][i + 1], db[k][i + 2], db[k][i + 3]);
    }
  }
  __syncthreads();
  const float* numbers = reinterpret_cast<const float*>(sums);
  for (int c = int(threadIdx.x); c < columns; c += int(blockDim.x)) {
    float w = 0, bias = 0;
    for (int t = 0; t < teams; ++t) {
      w += numbers[t * 2 * columns + c];
      bias += numbers[(t * 2 + 1) * columns + c];
    }
    b.dweight[blockIdx.x * b.columns + c] = w;
    if (b.dbias != nullptr) b.dbias[blockIdx.x * b.columns + c] = bias;
  }
}

/// Rows r, r + all teams, ... by one team: each is read once, through shared memory, while the one before is
/// at work. Gradients of the parameters stay in registers to the end. \tparam K pieces of a thread
template <class T, int K, class Result>
__global__ void __launch_bounds__(512, 1) backward_kernel(Backward<T> b, Result to, int team_warps) {
  constexpr int n = Piece<T>::n, kStages = stages_of(K);
  extern __shared__ uint4 slots[];
  __shared__ float shared[2][2][16];  // two rooms for sums, so that one meeting a row is enough
  const Team<true> team(team_warps);
  const Ahead<T, K> ahead = {b, team, slots, int(b.columns / n)};
  uint4 weight[K];
  float dw[K][n] = {}, db[K][n] = {};
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const bool exists = ahead.place(k) < ahead.pieces;
    weight[k] = exists ? reinterpret_cast<const uint4*>(b.weight.data)[ahead.place(k)] : uint4{};
  }
  const std::int64_t step = std::int64_t(gridDim.x) * team.teams();
  const float share = 1.f / float(b.columns);
  auto dx = to.thread();
  std::int64_t r = std::int64_t(blockIdx.x) * team.teams() + team.number;
  for (int s = 0; s + 1 < kStages; ++s) ahead.fetch(r + s * step, s);
  Row next = row_at(b, r);
  for (int stage = 0, turn = 0; r < b.rows; r += step, stage = (stage + 1) % kStages, turn ^= 1) {
    ahead.fetch(r + (kStages - 1) * step, (stage + kStages - 1) % kStages);
    const Row row = next;
    next = row_at(b, r + step);
    wait_for_copies<kStages - 1>();
    float sums[2] = {0, 0};  // of g = dy * weight, and of g * normalised x
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (ahead.place(k) >= ahead.pieces) continue;
      float g[n], x[n], w[n];
      Piece<T>::unpack(*ahead.slot(stage, 0, k), g);
      Piece<T>::unpack(*ahead.slot(stage, 1, k), x);
      Piece<T>::unpack(weight[k], w);
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const float normal = (x[i] - row.mean) * row.inverse;
        dw[k][i] += g[i] * normal;
        db[k][i] += g[i];
        sums[0] += g[i] * w[i];
        sums[1] += g[i] * w[i] * normal;
      }
    }
    team_sum(team, sums, shared[turn]);
    const float shift = b.rms ? 0.f : sums[0] * share, slope = sums[1] * share;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (ahead.place(k) >= ahead.pieces) continue;
      float g[n], x[n], w[n], add[n];
      Piece<T>::unpack(*ahead.slot(stage, 0, k), g);
      Piece<T>::unpack(*ahead.slot(stage, 1, k), x);
      Piece<T>::unpack(b.residual.data != nullptr ? *ahead.slot(stage, 2, k) : uint4{}, add);
      Piece<T>::unpack(weight[k], w);
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const float normal = (x[i] - row.mean) * row.inverse;
        g[i] = row.inverse * (g[i] * w[i] - shift - normal * slope) + add[i];
      }
      dx.piece(r, ahead.place(k), g);
    }
  }
  dx.finish();
  wait_for_copies<0>();
  __syncthreads();
  save_parts(b, ahead, dw, db);
}

/// Any number of columns at any address, first part: a thread sums one chunk of columns over the rows of its
/// block.
template <class T>
__global__ void __launch_bounds__(256) long_parameters(Backward<T> b) {
  const std::int64_t column = (std::int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * kChunk;
  const std::int64_t left = b.columns - column;
  const int n = left < 0 ? 0 : left < kChunk ? int(left) : kChunk;
  if (n == 0) return;
  float dw[kChunk] = {}, db[kChunk] = {}, g[kChunk], x[kChunk];
  for (std::int64_t r = blockIdx.x; r < b.rows; r += gridDim.x) {
    const float mean = b.statistics[r * b.pitch], inverse = b.statistics[r * b.pitch + 1];
    b.dy.load(r, column, n, g);
    b.x.load(r, column, n, x);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      dw[i] += g[i] * ((x[i] - mean) * inverse);
      db[i] += g[i];
    }
  }
  for (int i = 0; i < n; ++i) {
    b.dweight[blockIdx.x * b.columns + column + i] = dw[i];
    if (b.dbias != nullptr) b.dbias[blockIdx.x * b.columns + column + i] = db[i];
  }
}

/// Second part, a block a row: dy, which dx may overwrite, is not needed by others any more.
template <class T, class Result>
__global__ void __launch_bounds__(512) long_rows(Backward<T> b, Result to) {
  __shared__ double shared[64];
  const std::int64_t r = blockIdx.x;
  const float mean = b.statistics[r * b.pitch], inverse = b.statistics[r * b.pitch + 1];
  float g[kChunk], x[kChunk], w[kChunk];
  const auto load = [&](std::int64_t column, int n) {
    b.dy.load(r, column, n, g);
    b.x.load(r, column, n, x);
    b.weight.load(0, column, n, w);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) g[i] *= w[i], x[i] = (x[i] - mean) * inverse;
  };
  const std::int64_t step = std::int64_t(blockDim.x) * kChunk;
  const auto count = [&](std::int64_t column) { return int(min(std::int64_t(kChunk), b.columns - column)); };
  double sum_g = 0, sum_gx = 0;
  for (std::int64_t c = threadIdx.x * kChunk; c < b.columns; c += step) {
    load(c, count(c));
    for (int i = 0; i < count(c); ++i) sum_g += g[i], sum_gx += g[i] * x[i];
  }
  const Means m = means(b, sum_g, sum_gx, shared);
  auto dx = to.thread();
  for (std::int64_t c = threadIdx.x * kChunk; c < b.columns; c += step) {
    float add[kChunk] = {};
    load(c, count(c));
    if (b.residual.data != nullptr) b.residual.load(r, c, count(c), add);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) g[i] = inverse * (g[i] - m.shift - x[i] * m.slope) + add[i];
    dx(r, c, count(c), g);
  }
  dx.finish();
}

template <class T, class Result>
void launch_backward(const Call& call, const Backward<T>& b, const Shape& shape, const Result& to) {
  const bool aligned = b.dy.aligned && b.x.aligned && b.weight.aligned && b.residual.aligned && to.aligned();
  if (shape.fits && (aligned || call.load)) {
    const auto run = [&](auto kernel) {
      const std::size_t slots = std::size_t(stages_of(shape.pieces) * 3 * shape.pieces) * shape.block;
      launch(call, kernel, dim3(shape.blocks), shape.block, slots * sizeof(uint4), b, to, shape.team_warps);
    };
    switch (shape.pieces) {
      case 1:
        run(backward_kernel<T, 1, Result>);
        break;
      case 2:
        run(backward_kernel<T, 2, Result>);
        break;
      case 3:
        run(backward_kernel<T, 3, Result>);
        break;
      default:
        run(backward_kernel < T, std::is_same_v<T, Bf16> ? 3 : 4, Result >);
    }
  }
  if (shape.fits && aligned && !call.load) return;
  const auto columns = unsigned(divide_up(b.columns, 256 * kChunk));
  launch(call, long_parameters<T>, dim3(shape.blocks, columns), 256, 0, b);
  launch(call, long_rows<T, Result>, dim3(unsigned(b.rows)), 512, 0, b, to);
}

}  // namespace

std::int64_t norm_backward_workspace(const oct_operation& op) {
  const oct_matrix& x = op.operand[1];
  return 4 * std::int64_t(shape_of(x).blocks) * x.columns * (op.operand[7].rows > 0 ? 2 : 1);
}

void norm_backward(const Call& call) {
  const oct_operation& op = call.operation;
  const oct_matrix& m = op.operand[1];
  const Shape shape = shape_of(m);
  const bool bias = op.operand[7].rows > 0, accumulate = op.i[1] == 1;
  auto* dweight = data<float>(call, kWorkspace);
  float* dbias = bias ? dweight + std::int64_t(shape.blocks) * m.columns : nullptr;
  by_type(call, 1, [&](auto tag) {
    using T = decltype(tag);
    const Backward<T> b = {rows<const T>(call, 0),
                           rows<const T>(call, 1),
                           rows<const T>(call, 2),
                           rows<const T>(call, 4),
                           data<const float>(call, 3),
                           op.operand[3].pitch,
                           m.rows,
                           m.columns,
                           dweight,
                           dbias,
                           op.i[0] == 1};
    with_result<T>(call, [&](auto to) { launch_backward(call, b, shape, to); });
  });
  sum_partials(call, dweight, shape.blocks, m.columns, 6, bias ? 2 : 1, accumulate);
}

}  // namespace octachoron::cuda
