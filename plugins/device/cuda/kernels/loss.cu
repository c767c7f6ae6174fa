/// Cross-entropy over a vocabulary that may be split over ranks.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

constexpr int kThreads = 256;  // four blocks a processor, so that others work while one begins or ends a row

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

/// What adds nothing to a sum of exponentials.
template <class T>
__device__ uint4 absent_piece() {
  const std::uint32_t word = sizeof(T) == 2 ? 0xff80ff80u : 0xff800000u;  // -infinity
  return make_uint4(word, word, word, word);
}

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

/// Elements first .. first + n - 1 of a row: single ones up to a multiple of 16 bytes and after the last one,
/// pieces of 16 bytes between, kInFlight of a thread on their way at a time.
template <class T>
struct Stretch {
  static constexpr int kInFlight = 4;
  int head, pieces, singles;  ///< the head is the first of the single elements

  __device__ Stretch(const T* first, std::int64_t n) {
    constexpr int in_piece = Piece<T>::n;
    const int past = int(reinterpret_cast<std::uintptr_t>(first) % 16 / sizeof(T));
    head = int(min(n, std::int64_t((in_piece - past) % in_piece)));
    pieces = (int(n) - head) / in_piece;
    singles = int(n) - pieces * in_piece;
  }
  __device__ int single(int i) const { return i < head ? i : i + pieces * Piece<T>::n; }
};

/// A block a row: one pass with running maxima and sums.
template <class T>
__global__ void __launch_bounds__(kThreads)
    statistics_kernel(Rows<const T> logits, const std::int32_t* targets, float* statistics,
                      std::int64_t pitch, std::int64_t first, std::int64_t n, std::int64_t vocabulary,
                      std::uint64_t* error) {
  constexpr int in_piece = Piece<T>::n, ahead = Stretch<T>::kInFlight;
  __shared__ Softmax shared[kThreads / 32];
  const std::int64_t row = blockIdx.x;
  const T* at = logits.at(row, 0);
  const Stretch<T> stretch(at, n);
  const auto* pieces = reinterpret_cast<const uint4*>(at + stretch.head);
  Softmax s;
  for (int i = threadIdx.x; i < stretch.singles; i += kThreads) {
    const float v = wide(at[stretch.single(i)]);
    s.raise(v);
    s.sum += exponential<T>(v - s.origin());
  }
  for (int p = threadIdx.x; p < stretch.pieces; p += ahead * kThreads) {
    float v[ahead][in_piece], largest = -INFINITY;
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const bool exists = p + k * kThreads < stretch.pieces;
      Piece<T>::unpack(exists ? pieces[p + k * kThreads] : absent_piece<T>(), v[k]);
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k)
#pragma unroll
      for (int i = 0; i < in_piece; ++i) largest = fmaxf(largest, v[k][i]);
    s.raise(largest);
    const float origin = s.origin();
#pragma unroll
    for (int k = 0; k < ahead; ++k)
#pragma unroll
      for (int i = 0; i < in_piece; ++i) s.sum += exponential<T>(v[k][i] - origin);
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
  out[2] = id >= 0 && target >= 0 && target < n ? wide(at[target]) : 0.f;
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
    if (double(part[1]) != 0) {
      const double below = double(part[0]) - total.maximum;
      total.sum += below == 0 ? double(part[1]) : double(part[1]) * exp(below);
    }
    total.target += double(part[2]);
  }
  return total;
}

struct LossShape {
  std::int64_t pitch, tokens, parts, first, n, columns;
};

/// softmax * scale of one row, where the row counts.
struct Slope {
  float maximum, factor;
  bool counts;

  template <class T>
  __device__ float of(float v) const {
    return counts ? exponential<T>(v - maximum) * factor : 0.f;
  }
};

/// dlogits of the columns that exist. Both matrices lie alike to multiples of 16 bytes, else all is done
/// singly.
template <class T>
__device__ void write_slopes(const T* logits, T* dlogits, std::int64_t n, const Slope& slope) {
  constexpr int in_piece = Piece<T>::n, ahead = Stretch<T>::kInFlight;
  Stretch<T> stretch(logits, n);
  if ((reinterpret_cast<std::uintptr_t>(logits) ^ reinterpret_cast<std::uintptr_t>(dlogits)) % 16 != 0)
    stretch.head = stretch.singles = int(n), stretch.pieces = 0;
  const auto* from = reinterpret_cast<const uint4*>(logits + stretch.head);
  auto* to = reinterpret_cast<uint4*>(dlogits + stretch.head);
  for (int i = threadIdx.x; i < stretch.singles; i += kThreads) {
    const int c = stretch.single(i);
    store(dlogits + c, slope.of<T>(wide(logits[c])));
  }
  for (int p = threadIdx.x; p < stretch.pieces; p += ahead * kThreads) {
    uint4 kept[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k)
      if (p + k * kThreads < stretch.pieces) kept[k] = from[p + k * kThreads];
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      if (p + k * kThreads >= stretch.pieces) continue;
      float v[in_piece];
      Piece<T>::unpack(kept[k], v);
#pragma unroll
      for (int i = 0; i < in_piece; ++i) v[i] = slope.of<T>(v[i]);
      to[p + k * kThreads] = Piece<T>::pack(v);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    loss_kernel(Rows<const T> logits, const std::int32_t* targets, const float* statistics,
                const double* scalars, Rows<T> dlogits, double* row_loss, LossShape s) {
  const std::int64_t row = blockIdx.x, target = targets[row] - s.first;
  const bool counts = targets[row] >= 0, is_here = counts && target >= 0 && target < s.n;
  RowTotal total = {0, 1, 0};
  if (counts) total = combine(statistics, s.pitch, s.tokens, s.parts, row);
  // dlogits may be the logits, so the one of the target is read before anything is written.
  const double logit = dlogits.data != nullptr && is_here ? double(wide(*logits.at(row, target))) : 0;
  const double scale = scalars[OCT_SCALAR_INVERSE_TOKENS];
  if (dlogits.data != nullptr) {
    __syncthreads();
    const Slope slope = {float(total.maximum), float(scale / total.sum), counts};
    write_slopes(logits.at(row, 0), dlogits.at(row, 0), s.n, slope);
    for (std::int64_t c = s.n + threadIdx.x; c < s.columns; c += kThreads) store(dlogits.at(row, c), 0.f);
  }
  if (threadIdx.x == 0) row_loss[row] = counts ? log(total.sum) + (total.maximum - total.target) : 0;
  if (dlogits.data == nullptr || !is_here) return;
  __syncthreads();
  if (threadIdx.x == 0)
    store(dlogits.at(row, target), float((exp(logit - total.maximum) / total.sum - 1) * scale));
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
