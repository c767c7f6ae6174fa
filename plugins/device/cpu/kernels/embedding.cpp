/// Token and position embedding.
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/support.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

template <class T>
void embedding(const Call& call) {
  const auto* ids = static_cast<const std::int32_t*>(call.pointers[0]);
  const auto table = operand<const T>(call, 1);
  const auto out = operand<T>(call, 2);
  const std::int64_t first = call.operation.i[0];
  parallel_for(call.threads, out.rows, out.columns, [=](std::int64_t t) {
    const std::int64_t row = ids[t] - first;
    const std::size_t bytes = std::size_t(out.columns) * sizeof(T);
    if (row >= 0 && row < table.rows) {
      std::memcpy(out.row(t), table.row(row), bytes);
    } else {
      std::memset(out.row(t), 0, bytes);
    }
  });
}

/// Tokens by row of the table, in token order within a row: (row << 32 | token), for rows of this table only.
/// \param keys, spare: room for `tokens` each \returns the sorted ones, in one of the two
struct SortedTokens {
  const std::uint64_t* keys;
  std::int64_t n;
};
SortedTokens sort_tokens(const std::int32_t* ids, std::int64_t tokens, std::int64_t first, std::int64_t rows,
                         std::uint64_t* keys, std::uint64_t* spare) {
  std::int64_t n = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t row = ids[t] - first;
    if (row >= 0 && row < rows) keys[n++] = std::uint64_t(row) << 32 | std::uint64_t(t);
  }
  for (int shift = 32; shift < 64 && (rows - 1) >> (shift - 32) > 0; shift += 8) {
    std::int64_t place[256] = {};
    for (std::int64_t i = 0; i < n; ++i) ++place[keys[i] >> shift & 255];
    for (std::int64_t b = 0, sum = 0; b < 256; ++b) {
      const std::int64_t count = place[b];
      place[b] = sum;
      sum += count;
    }
    for (std::int64_t i = 0; i < n; ++i) spare[place[keys[i] >> shift & 255]++] = keys[i];
    std::uint64_t* swap = keys;
    keys = spare;
    spare = swap;
  }
  return {keys, n};
}

/// dtable += rows of dout with equal id, each id summed in FP64 before it is rounded once.
template <class T, class G>
void embedding_backward(const Call& call) {
  const auto* ids = static_cast<const std::int32_t*>(call.pointers[0]);
  const auto dout = operand<const T>(call, 1);
  const auto dtable = operand<G>(call, 2);
  auto* workspace = static_cast<std::uint64_t*>(call.pointers[kWorkspace]);
  const bool accumulate = call.operation.i[1] == 1;
  if (!accumulate) {
    parallel_for(call.threads, dtable.rows, dtable.columns, [=](std::int64_t r) {
      std::memset(static_cast<void*>(dtable.row(r)), 0, std::size_t(dtable.columns) * sizeof(G));
    });
  }
  const SortedTokens sorted =
      sort_tokens(ids, dout.rows, call.operation.i[0], dtable.rows, workspace, workspace + dout.rows);
  const std::int64_t blocks = (dout.columns + kColumns - 1) / kColumns;
  parallel_for(call.threads, blocks, sorted.n * kColumns, [=](std::int64_t block) {
    const std::int64_t begin = block * kColumns;
    const std::int64_t n = begin + kColumns < dout.columns ? kColumns : dout.columns - begin;
    for (std::int64_t i = 0; i < sorted.n;) {
      ColumnSums sums = {};
      const std::uint64_t row = sorted.keys[i] >> 32;
      for (; i < sorted.n && sorted.keys[i] >> 32 == row; ++i) {
        const T* from = dout.row(std::int64_t(sorted.keys[i] & 0xffffffffu)) + begin;
#pragma omp simd
        for (std::int64_t c = 0; c < n; ++c) sums.sum[c] += double(wide(from[c]));
      }
      store_sums(dtable.row(std::int64_t(row)) + begin, sums.sum, n, accumulate);
    }
  });
}

template <class T>
void position(const Call& call) {
  const auto x = operand<const T>(call, 0), table = operand<const T>(call, 1);
  const auto out = operand<T>(call, 2);
  const std::int64_t first = call.operation.i[0], sequence = call.operation.i[1];
  parallel_for(call.threads, x.rows, x.columns, [=](std::int64_t t) {
    const T *from = x.row(t), *add = table.row((t + first) % sequence);
    T* to = out.row(t);
#pragma omp simd
    for (std::int64_t c = 0; c < x.columns; ++c) store(to + c, wide(from[c]) + wide(add[c]));
  });
}

template <class T, class G>
void position_backward(const Call& call) {
  const auto dout = operand<const T>(call, 0);
  const auto dtable = operand<G>(call, 1);
  const std::int64_t first = call.operation.i[0], sequence = call.operation.i[1];
  const bool accumulate = call.operation.i[2] == 1;
  parallel_for(call.threads, sequence, dout.rows / sequence * dout.columns + dout.columns,
               [=](std::int64_t s) {
                 const std::int64_t start = (s - first % sequence + sequence) % sequence;
                 for (std::int64_t begin = 0; begin < dout.columns; begin += kColumns) {
                   const std::int64_t n = begin + kColumns < dout.columns ? kColumns : dout.columns - begin;
                   ColumnSums sums = {};
                   for (std::int64_t t = start; t < dout.rows; t += sequence) {
                     const T* from = dout.row(t) + begin;
#pragma omp simd
                     for (std::int64_t c = 0; c < n; ++c) sums.sum[c] += double(wide(from[c]));
                   }
                   store_sums(dtable.row(s) + begin, sums.sum, n, accumulate);
                 }
               });
}

}  // namespace

Kernel embedding_kernel(const oct_operation& operation) {
  return by_type(operation.operand[1].dtype, [](auto tag) -> Kernel { return embedding<decltype(tag)>; });
}
Kernel position_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype, [](auto tag) -> Kernel { return position<decltype(tag)>; });
}
Kernel embedding_backward_kernel(const oct_operation& operation) {
  return by_type(operation.operand[1].dtype, [&](auto tag) -> Kernel {
    using T = decltype(tag);
    return by_gradient_type<T>(operation.operand[2].dtype, [](auto gradient) -> Kernel {
      return embedding_backward<T, decltype(gradient)>;
    });
  });
}
Kernel position_backward_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype, [&](auto tag) -> Kernel {
    using T = decltype(tag);
    return by_gradient_type<T>(operation.operand[1].dtype, [](auto gradient) -> Kernel {
      return position_backward<T, decltype(gradient)>;
    });
  });
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
