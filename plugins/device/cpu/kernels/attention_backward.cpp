/// Gradient of causal attention: probabilities are recomputed tile by tile from the saved log-sum-exp.
#include "plugins/device/cpu/kernels/attention_tiles.h"
#include "plugins/device/cpu/kernels/groups.h"
#include "plugins/device/cpu/kernels/thread.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

template <class W>
struct Scratch {
  W *k, *k_transposed, *v_transposed, *dk, *dv, *q, *dout, *dq, *p, *ds;
  Scratch(W* memory, const Shape& shape) {
    const std::int64_t tile = kTile * shape.padded;
    k = memory, k_transposed = k + tile, v_transposed = k_transposed + tile, dk = v_transposed + tile;
    dv = dk + tile, q = dv + tile, dout = q + tile, dq = dout + tile;
    p = dq + tile, ds = p + kTile * kTile;
  }
};

/// The operands and what the workspace holds beside the scratch of the threads.
template <class T>
struct Backward {
  using W = Wide<T>;
  Shape shape;
  Matrix<const T> qkv, out, dout;
  Matrix<const W> lse;
  Matrix<T> dqkv;
  W *delta, *dq, *scratch;  // delta [T,N]: sums of dout * out; dq [T,N*D] in arithmetic type
  W scale;
  explicit Backward(const Call& call)
      : shape(call.operation),
        qkv(operand<const T>(call, 0)),
        out(operand<const T>(call, 1)),
        dout(operand<const T>(call, 3)),
        lse(operand<const W>(call, 2)),
        dqkv(operand<T>(call, 4)),
        delta(static_cast<W*>(call.pointers[kWorkspace])),
        dq(delta + qkv.rows * shape.heads),
        scratch(dq + qkv.rows * shape.heads * shape.size),
        scale(W(call.operation.f[0])) {}
};

/// p becomes the probabilities and ds the gradient of the scaled scores, zero where hidden or beyond the
/// rows.
template <class T>
void score_gradient(const Backward<T>& b, const Scratch<Wide<T>>& s, std::int64_t rows, std::int64_t token,
                    std::int64_t head, std::int64_t visible) {
  using W = Wide<T>;
  for (std::int64_t i = 0; i < rows; ++i) {
    W *p = s.p + i * kTile, *ds = s.ds + i * kTile;
    const W lse = b.lse.row(token + i)[head], delta = b.delta[(token + i) * b.shape.heads + head];
    mask_row(p, visible + i, b.scale);
    for (std::int64_t j = 0; j < kTile; j += 8) {
      const V8<W> probability = exponential(V8<W>(load8(p + j) - lse));
      store8<W>(p + j, probability);
      store8<W>(ds + j, probability * (load8(ds + j) - delta) * b.scale);
    }
  }
}

/// One query tile against the key tile in the scratch.
template <class T>
void query_tile(const Backward<T>& b, const Scratch<Wide<T>>& s, std::int64_t base, std::int64_t first,
                std::int64_t first_key, std::int64_t keys, std::int64_t head) {
  using W = Wide<T>;
  const Shape& shape = b.shape;
  const std::int64_t rows = first + kTile < shape.length ? kTile : shape.length - first,
                     padded = shape.padded;
  load_tile(b.qkv, base + first, rows, shape.query(head), shape, s.q);
  load_tile(b.dout, base + first, rows, head * shape.size, shape, s.dout);
  tile_product<W, false>(rows, kTile, shape.size, {s.q, padded, 1}, s.k_transposed, kTile, s.p, kTile);
  tile_product<W, false>(rows, kTile, shape.size, {s.dout, padded, 1}, s.v_transposed, kTile, s.ds, kTile);
  score_gradient(b, s, rows, base + first, head, first - first_key + 1);
  tile_product<W, true>(keys, padded, rows, {s.p, 1, kTile}, s.dout, padded, s.dv, padded);
  tile_product<W, true>(keys, padded, rows, {s.ds, 1, kTile}, s.q, padded, s.dk, padded);
  tile_product<W, false>(rows, padded, keys, {s.ds, kTile, 1}, s.k, padded, s.dq, padded);
  for (std::int64_t i = 0; i < rows; ++i) {
    W* to = b.dq + ((base + first + i) * shape.heads + head) * shape.size;
    for (std::int64_t d = 0; d < shape.size; ++d) to[d] += s.dq[i * padded + d];
  }
}

/// delta and a zero dq of the query heads of one key head.
template <class T>
void begin_task(const Backward<T>& b, std::int64_t base, std::int64_t key_head) {
  using W = Wide<T>;
  const Shape& shape = b.shape;
  const std::int64_t head = key_head * shape.group;
  for (std::int64_t t = base; t < base + shape.length; ++t) {
    std::memset(b.dq + (t * shape.heads + head) * shape.size, 0,
                sizeof(W) * std::size_t(shape.group * shape.size));
    for (std::int64_t h = head; h < head + shape.group; ++h) {
      const T *x = b.out.row(t) + h * shape.size, *y = b.dout.row(t) + h * shape.size;
      b.delta[t * shape.heads + h] = W(sum_double(
          shape.size, [=](std::int64_t d) { return D8(to_double(load8(x + d)) * to_double(load8(y + d))); },
          [=](std::int64_t d) { return double(wide(x[d])) * double(wide(y[d])); }));
    }
  }
}

template <class T>
void key_head_task(const Backward<T>& b, std::int64_t sequence, std::int64_t key_head) {
  using W = Wide<T>;
  const Shape& shape = b.shape;
  const std::int64_t base = sequence * shape.length, padded = shape.padded, head = key_head * shape.group;
  const Scratch<W> s(b.scratch + thread_number() * attention_backward_scratch(shape.size), shape);
  begin_task(b, base, key_head);
  for (std::int64_t key = 0; key < shape.length; key += kTile) {
    const std::int64_t keys = key + kTile < shape.length ? kTile : shape.length - key;
    load_tile(b.qkv, base + key, keys, shape.key(key_head), shape, s.k);
    load_transposed(b.qkv, base + key, keys, shape.key(key_head), shape, s.k_transposed);
    load_transposed(b.qkv, base + key, keys, shape.value(key_head), shape, s.v_transposed);
    std::memset(s.dk, 0, sizeof(W) * std::size_t(2 * kTile * padded));  // and dv, which follows
    for (std::int64_t h = head; h < head + shape.group; ++h) {
      for (std::int64_t first = key; first < shape.length; first += kTile)
        query_tile(b, s, base, first, key, keys, h);
    }
    for (std::int64_t i = 0; i < keys; ++i) {
      T* to = b.dqkv.row(base + key + i);
      for (std::int64_t d = 0; d < shape.size; ++d) {
        store(to + shape.key(key_head) + d, s.dk[i * padded + d]);
        store(to + shape.value(key_head) + d, s.dv[i * padded + d]);
      }
    }
  }
  for (std::int64_t t = base; t < base + shape.length; ++t) {
    const W* from = b.dq + (t * shape.heads + head) * shape.size;
    T* to = b.dqkv.row(t) + shape.query(head);
    for (std::int64_t d = 0; d < shape.group * shape.size; ++d) store(to + d, from[d]);
  }
}

template <class T>
void attention_backward(const Call& call) {
  const Backward<T> b(call);
  const std::int64_t tasks = b.qkv.rows / b.shape.length * b.shape.key_heads;
  parallel_tasks(call.threads, tasks,
                 [&](std::int64_t i) { key_head_task(b, i / b.shape.key_heads, i % b.shape.key_heads); });
}

}  // namespace

Kernel attention_backward_kernel(const oct_operation& operation) {
  return by_type(operation.operand[0].dtype,
                 [](auto tag) -> Kernel { return attention_backward<decltype(tag)>; });
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
