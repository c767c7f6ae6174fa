/// Causal attention by tiles with a running softmax: the score matrix is never stored. One thread computes a
/// whole (sequence, head, query tile) forwards and a whole (sequence, key head) backwards, in a fixed order.
#include "plugins/device/cpu/kernels/attention_tiles.h"
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/thread.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

template <class W>
struct ForwardScratch {
  W *q, *k, *v, *out, *scores, *maximum, *sum;
  ForwardScratch(W* memory, const Shape& shape) {
    const std::int64_t tile = kTile * shape.padded;
    q = memory, k = q + tile, v = k + tile, out = v + tile;
    scores = out + tile, maximum = scores + kTile * kTile, sum = maximum + kTile;
  }
};

/// Scores become exp(score - maximum); running maximum, sum and output follow.
template <class W>
void soften(const ForwardScratch<W>& s, const Shape& shape, std::int64_t rows, std::int64_t first_query,
            std::int64_t first_key, W scale) {
  for (std::int64_t i = 0; i < rows; ++i) {
    W* row = s.scores + i * kTile;
    mask_row(row, first_query + i - first_key + 1, scale);
    V8<W> largest = load8(row);
    for (std::int64_t j = 8; j < kTile; j += 8) {
      const V8<W> v = load8(row + j);
      largest = larger8(v, largest);
    }
    W maximum = s.maximum[i];
    for (int lane = 0; lane < 8; ++lane) maximum = largest[lane] > maximum ? largest[lane] : maximum;
    V8<W> sum = {};
    for (std::int64_t j = 0; j < kTile; j += 8) {
      const V8<W> p = exponential(V8<W>(load8(row + j) - maximum));
      store8<W>(row + j, p);
      sum += p;
    }
    const W shrink = exponential(W(s.maximum[i] - maximum));
    s.sum[i] = s.sum[i] * shrink + sum_lanes(sum);
    s.maximum[i] = maximum;
    if (shrink == W(1)) continue;
    for (std::int64_t d = 0; d < shape.padded; ++d) s.out[i * shape.padded + d] *= shrink;
  }
}

template <class T>
void forward_tile(const Call& call, const Shape& shape, std::int64_t sequence, std::int64_t head,
                  std::int64_t tile) {
  using W = Wide<T>;
  const auto qkv = operand<const T>(call, 0);
  const auto out = operand<T>(call, 1);
  const auto lse = operand<W>(call, 2);
  const ForwardScratch<W> s(
      static_cast<W*>(call.pointers[kWorkspace]) + thread_number() * attention_scratch(shape.size), shape);
  const std::int64_t first = tile * kTile, base = sequence * shape.length;
  const std::int64_t rows = first + kTile < shape.length ? kTile : shape.length - first;
  const std::int64_t padded = shape.padded, key_head = head / shape.group;
  load_tile(qkv, base + first, rows, shape.query(head), shape, s.q);
  std::memset(s.out, 0, sizeof(W) * std::size_t(kTile * padded));
  for (std::int64_t i = 0; i < kTile; ++i) s.maximum[i] = W(-__builtin_inf()), s.sum[i] = 0;
  for (std::int64_t key = 0; key <= first; key += kTile) {
    const std::int64_t keys = key + kTile < shape.length ? kTile : shape.length - key;
    load_transposed(qkv, base + key, keys, shape.key(key_head), shape, s.k);
    load_tile(qkv, base + key, keys, shape.value(key_head), shape, s.v);
    tile_product<W, false>(rows, kTile, shape.size, {s.q, padded, 1}, s.k, kTile, s.scores, kTile);
    soften(s, shape, rows, first, key, W(call.operation.f[0]));
    tile_product<W, true>(rows, padded, keys, {s.scores, kTile, 1}, s.v, padded, s.out, padded);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const W inverse = W(1) / s.sum[i];
    T* to = out.row(base + first + i) + head * shape.size;
    for (std::int64_t d = 0; d < shape.size; ++d) store(to + d, s.out[i * padded + d] * inverse);
    lse.row(base + first + i)[head] = W(double(s.maximum[i]) + ::log(double(s.sum[i])));
  }
}

template <class T>
void attention(const Call& call) {
  const Shape shape(call.operation);
  const std::int64_t tiles = (shape.length + kTile - 1) / kTile;
  const std::int64_t tasks = call.operation.operand[0].rows / shape.length * shape.heads * tiles;
  parallel_tasks(call.threads, tasks, [=, &call](std::int64_t i) {
    const std::int64_t pair = i / tiles,
                       tile = tiles - 1 - i % tiles;  // the dear ones, with many keys, first
    forward_tile<T>(call, shape, pair / shape.heads, pair % shape.heads, tile);
  });
}

}  // namespace

Kernel attention_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype, [](auto tag) -> Kernel { return attention<decltype(tag)>; });
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
