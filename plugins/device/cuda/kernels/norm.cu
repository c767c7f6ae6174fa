/// LayerNorm and RMSNorm.
#include "plugins/device/cuda/kernels/cast.cuh"
#include "plugins/device/cuda/kernels/team.cuh"

namespace octachoron::cuda {
namespace {

template <class T>
struct Norm {
  Rows<const T> x, weight, bias;
  float* statistics;
  std::int64_t pitch, rows, columns;
  float epsilon;
  bool rms;

  __device__ void note(std::int64_t row, float mean, float inverse) const {
    statistics[row * pitch] = mean;
    statistics[row * pitch + 1] = inverse;
  }
  __device__ float inverse_deviation(float squares) const {
    return __frcp_rn(__fsqrt_rn(squares / float(columns) + epsilon));
  }
};

/// A row by a team, in registers, so that it is read once. What is stored is what is used: the backward pass
/// differentiates this very function. \tparam K pieces of a thread
template <int K, class T, class Result>
__device__ void norm_row(const Norm<T>& norm, const Team<false>& team, std::int64_t row,
                         float (&shared)[2][1][16], Result& y) {
  constexpr int n = Piece<T>::n;
  const int pieces = int(norm.columns / n);
  const auto place = [&](int k) { return k * team.threads + team.place; };
  const auto* x = reinterpret_cast<const uint4*>(norm.x.at(row, 0));
  float v[K][n];
#pragma unroll
  for (int k = 0; k < K; ++k) Piece<T>::unpack(place(k) < pieces ? x[place(k)] : uint4{}, v[k]);
  float mean = 0;
  if (!norm.rms) {
    float sum[1] = {0};
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int i = 0; i < n; ++i) sum[0] += v[k][i];
    team_sum(team, sum, shared[0]);
    mean = sum[0] / float(norm.columns);
  }
  float squares[1] = {0};
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (place(k) >= pieces) continue;
#pragma unroll
    for (int i = 0; i < n; ++i) squares[0] += (v[k][i] - mean) * (v[k][i] - mean);
  }
  team_sum(team, squares, shared[1]);
  const float inverse = norm.inverse_deviation(squares[0]);
  if (team.place == 0) norm.note(row, mean, inverse);
  const auto* weight = reinterpret_cast<const uint4*>(norm.weight.data);
  const auto* bias = reinterpret_cast<const uint4*>(norm.bias.data);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (place(k) >= pieces) continue;
    float w[n], b[n];
    Piece<T>::unpack(weight[place(k)], w);
    Piece<T>::unpack(bias != nullptr ? bias[place(k)] : uint4{}, b);
#pragma unroll
    for (int i = 0; i < n; ++i) v[k][i] = (v[k][i] - mean) * inverse * w[i] + b[i];
    y.piece(row, place(k), v[k]);
  }
}

/// A team takes a row, or several where a result is better finished seldom.
template <class T, int K, class Result>
__global__ void __launch_bounds__(512) norm_kernel(Norm<T> norm, Result to, int team_warps) {
  __shared__ float shared[2][1][16];
  const Team<false> team(team_warps);
  std::int64_t row = std::int64_t(blockIdx.x) * team.teams() + team.number;
  if (row >= norm.rows) return;
  auto y = to.thread();
  if constexpr (!Result::kRecords) {
    norm_row<K>(norm, team, row, shared, y);
  } else {
    const std::int64_t step = std::int64_t(gridDim.x) * team.teams();
    for (; row < norm.rows; row += step) {
      norm_row<K>(norm, team, row, shared, y);
      if (team.warps > 1) team.meet();  // one team a block: `shared` is written again
    }
    y.finish();
  }
}

/// Any number of columns at any address: a block a row, which is read again for each use.
template <class T, class Result>
__global__ void __launch_bounds__(512) any_norm_kernel(Norm<T> norm, Result to) {
  __shared__ double shared[2][32];
  const std::int64_t row = blockIdx.x;
  const auto each = [&](auto f) {
    for (std::int64_t c = threadIdx.x * kChunk; c < norm.columns; c += blockDim.x * kChunk) {
      const int n = int(min(std::int64_t(kChunk), norm.columns - c));
      float v[kChunk];
      norm.x.load(row, c, n, v);
      f(c, n, v);
    }
  };
  double sum[1] = {0}, squares[1] = {0};
  if (!norm.rms) {
    each([&](std::int64_t, int, float(&v)[kChunk]) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sum[0] += double(v[i]);
    });
    block_sum(sum, shared[0]);
  }
  const float mean = float(sum[0] / double(norm.columns));
  each([&](std::int64_t, int n, float(&v)[kChunk]) {
#pragma unroll
    for (int i = 0; i < kChunk; ++i) squares[0] += i < n ? double((v[i] - mean) * (v[i] - mean)) : 0.;
  });
  block_sum(squares, shared[1]);
  const float inverse = norm.inverse_deviation(float(squares[0]));
  if (threadIdx.x == 0) norm.note(row, mean, inverse);
  auto y = to.thread();
  each([&](std::int64_t c, int n, float(&v)[kChunk]) {
    float w[kChunk], b[kChunk] = {};
    norm.weight.load(0, c, n, w);
    if (norm.bias.data != nullptr) norm.bias.load(0, c, n, b);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) v[i] = (v[i] - mean) * inverse * w[i] + b[i];
    y(row, c, n, v);
  });
  y.finish();
}

constexpr int kMostPieces = 4;
constexpr std::int64_t kMostRecording = 4096;  ///< blocks of which each warp records what it cast

template <class T, class Result>
void launch_norm(const Call& call, const Norm<T>& norm, const Result& to) {
  constexpr int n = Piece<T>::n;
  const std::int64_t pieces = divide_up(norm.columns, n), warps = divide_up(pieces, 32 * kMostPieces);
  const bool fits = norm.columns % n == 0 && norm.columns > 0 && warps <= 16;
  const bool aligned = norm.x.aligned && norm.weight.aligned && norm.bias.aligned && to.aligned();
  if (fits && (aligned || call.load)) {
    const auto kernel = [&] {
      switch (divide_up(pieces, 32 * warps)) {
        case 1:
          return norm_kernel<T, 1, Result>;
        case 2:
          return norm_kernel<T, 2, Result>;
        case 3:
          return norm_kernel<T, 3, Result>;
        default:
          return norm_kernel<T, kMostPieces, Result>;
      }
    }();
    const std::int64_t teams = warps == 1 ? 4 : 1;  // rows that a warp can hold: four to a block
    const std::int64_t each = divide_up(norm.rows, teams);
    const std::int64_t rounds = Result::kRecords ? divide_up(each, kMostRecording) : 1;
    launch(call, kernel, dim3(unsigned(rounds > 0 ? divide_up(each, rounds) : 0)),
           unsigned(32 * warps * teams), 0, norm, to, int(warps));
  }
  if (fits && aligned && !call.load) return;
  launch(call, any_norm_kernel<T, Result>, dim3(unsigned(norm.rows)), 512, 0, norm, to);
}

}  // namespace

void norm(const Call& call) {
  const oct_operation& op = call.operation;
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    const Norm<T> norm = {rows<const T>(call, 0), rows<const T>(call, 1), rows<const T>(call, 2),
                          data<float>(call, 4),   op.operand[4].pitch,    op.operand[0].rows,
                          op.operand[0].columns,  float(op.f[0]),         op.i[0] == 1};
    with_result<T>(call, [&](auto to) { launch_norm(call, norm, to); });
  });
}

}  // namespace octachoron::cuda
