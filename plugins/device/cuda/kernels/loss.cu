/// Cross-entropy over a vocabulary that may be split over ranks.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

constexpr int kThreads = 512;

/// Columns of this part whose id is below the vocabulary.
std::int64_t existing_columns(const oct_operation& op) {
  const std::int64_t left = op.i[1] - op.i[0], columns = op.operand[0].columns;
  return left < 0 ? 0 : left < columns ? left : columns;
}

/// A sum of exp(l - maximum), both running.
struct Softmax {
  float maximum = -INFINITY, sum = 0;

  /// Before any number came, -infinity stands for 0: exp(-infinity - 0) is 0, and a NaN stays one.
  __device__ float origin() const { return maximum == -INFINITY ? 0.f : maximum; }
  __device__ void raise(float to) {
    if (!(to > maximum)) return;
    if (sum != 0) sum *= expf(maximum - to);
    maximum = to;
  }
  __device__ void join(Softmax other) {
    raise(other.maximum);
    if (other.sum != 0) sum += other.sum * expf(other.maximum - origin());
  }
};

__device__ Softmax warp_join(Softmax s) {
  // Every lane joins in the same order, the lower half first, so that all get the same bits.
  for (int step = 1; step < 32; step *= 2) {
    Softmax other;
    other.maximum = __shfl_xor_sync(~0u, s.maximum, step);
    other.sum = __shfl_xor_sync(~0u, s.sum, step);
    if ((threadIdx.x & step) == 0) {
      s.join(other);
    } else {
      other.join(s);
      s = other;
    }
  }
  return s;
}

/// A block a row: one pass with running maxima and sums.
template <class T>
__global__ void __launch_bounds__(kThreads)
    statistics_kernel(Rows<const T> logits, const std::int32_t* targets, float* statistics,
                      std::int64_t pitch, std::int64_t first, std::int64_t n, std::int64_t vocabulary,
                      std::uint64_t* error) {
  __shared__ Softmax shared[kThreads / 32];
  const std::int64_t row = blockIdx.x;
  Softmax s;
  float v[kChunk];
  for (std::int64_t c = threadIdx.x * kChunk; c < n; c += kThreads * kChunk) {
    const int here = n - c < kChunk ? int(n - c) : kChunk;
    logits.load(row, c, here, v);
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      if (i < here && v[i] > largest) largest = v[i];
    s.raise(largest);
    const float origin = s.origin();
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      if (i < here) s.sum += expf(v[i] - origin);
  }
  s = warp_join(s);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  Softmax all = threadIdx.x < kThreads / 32 ? shared[threadIdx.x] : Softmax{};
  all = warp_join(all);
  if (threadIdx.x > 0) return;
  const std::int32_t id = targets[row];
  if (id < -1 || id >= vocabulary) *error = encode({id, std::uint32_t(row)});
  const std::int64_t target = id - first;
  float* out = statistics + row * pitch;
  out[0] = all.maximum;
  out[1] = all.sum;
  out[2] = id >= 0 && target >= 0 && target < n ? wide(*logits.at(row, target)) : 0.f;
}

/// The softmax denominator of a row from the statistics of all parts.
struct RowTotal {
  double maximum, sum, target;
};
__device__ RowTotal combine(const float* statistics, std::int64_t pitch, std::int64_t tokens,
                            std::int64_t parts, std::int64_t t) {
  RowTotal total = {-INFINITY, 0, 0};
  for (std::int64_t p = 0; p < parts; ++p) {
    const double m = statistics[(p * tokens + t) * pitch];
    total.maximum = m > total.maximum ? m : total.maximum;
  }
  for (std::int64_t p = 0; p < parts; ++p) {
    const float* part = statistics + (p * tokens + t) * pitch;
    // A part without columns has maximum -infinity and sum 0; any other term is taken as it is, NaN too.
    if (double(part[1]) != 0) total.sum += double(part[1]) * exp(double(part[0]) - total.maximum);
    total.target += double(part[2]);
  }
  return total;
}

struct LossShape {
  std::int64_t pitch, tokens, parts, first, n, columns;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    loss_kernel(Rows<const T> logits, const std::int32_t* targets, const float* statistics,
                const double* scalars, Rows<T> dlogits, double* row_loss, LossShape s) {
  __shared__ RowTotal shared;
  const std::int64_t row = blockIdx.x;
  const bool counts = targets[row] >= 0;
  if (threadIdx.x == 0) {
    if (counts) shared = combine(statistics, s.pitch, s.tokens, s.parts, row);
    row_loss[row] = counts ? log(shared.sum) + (shared.maximum - shared.target) : 0;
  }
  __syncthreads();
  if (dlogits.data == nullptr) return;
  const RowTotal total = counts ? shared : RowTotal{0, 1, 0};
  const double scale = scalars[OCT_SCALAR_INVERSE_TOKENS];
  const float m = float(total.maximum), factor = float(scale / total.sum);
  const std::int64_t target = targets[row] - s.first;
  float v[kChunk];
  for (std::int64_t c = threadIdx.x * kChunk; c < s.columns; c += kThreads * kChunk) {
    const int here = s.columns - c < kChunk ? int(s.columns - c) : kChunk;
    logits.load(row, c, here, v);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const bool exists = counts && c + i < s.n;
      const double logit = double(v[i]);
      v[i] = exists ? expf(v[i] - m) * factor : 0.f;
      if (exists && c + i == target) v[i] = float((exp(logit - total.maximum) / total.sum - 1) * scale);
    }
    dlogits.save(row, c, here, v);
  }
}

/// One block: thread t sums every 1024th row, then the threads in a fixed tree.
__global__ void __launch_bounds__(1024) sum_kernel(const double* row_loss, std::int64_t rows, double* loss) {
  __shared__ double shared[32];
  double sum[1] = {0};
  for (std::int64_t r = threadIdx.x; r < rows; r += 1024) sum[0] += row_loss[r];
  block_sum(sum, shared);
  if (threadIdx.x == 0) *loss += sum[0];
}

}  // namespace

void loss_statistics(const Call& call) {
  const oct_operation& op = call.operation;
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    launch(call, statistics_kernel<T>, dim3(unsigned(op.operand[0].rows)), kThreads, 0,
           rows<const T>(call, 0), data<const std::int32_t>(call, 1), data<float>(call, 2),
           op.operand[2].pitch, op.i[0], existing_columns(op), op.i[1], call.error);
  });
}

std::int64_t loss_workspace(const oct_operation& op) {
  return 8 * op.operand[0].rows;
}

void loss(const Call& call) {
  const oct_operation& op = call.operation;
  auto* row_loss = data<double>(call, kWorkspace);
  const LossShape shape = {op.operand[2].pitch,  op.operand[0].rows,   op.i[2], op.i[0],
                           existing_columns(op), op.operand[0].columns};
  by_type(call, 0, [&](auto tag) {
    using T = decltype(tag);
    launch(call, loss_kernel<T>, dim3(unsigned(shape.tokens)), kThreads, 0, rows<const T>(call, 0),
           data<const std::int32_t>(call, 1), data<const float>(call, 2), data<const double>(call, 3),
           rows<T>(call, 4), row_loss, shape);
  });
  launch(call, sum_kernel, dim3(1), 1024, 0, row_loss, shape.tokens, data<double>(call, 5));
}

}  // namespace octachoron::cuda
