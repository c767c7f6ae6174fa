#include "tests/gpu/timing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "core/plugin/dtype.h"

namespace octachoron::gpu {
namespace {

struct Case {
  std::string name;
  oct_operation operation;
};

oct_matrix matrix(oct_dtype type, std::int64_t rows, std::int64_t columns) {
  return {type, 0, rows, columns, columns};
}

/// A model's shapes: tokens, hidden size, inner size, heads, key heads, head size, vocabulary.
struct Model {
  const char* name;
  std::int64_t tokens, sequence, hidden, inner, heads, key_heads, size, vocabulary;
};

void gemm_cases(const Model& m, oct_dtype t, std::vector<Case>* cases) {
  const auto product = [&](const char* what, std::int64_t rows, std::int64_t n, std::int64_t k) {
    const auto shape =
        std::string(what) + " " + std::to_string(rows) + "x" + std::to_string(n) + "x" + std::to_string(k);
    const oct_matrix x = matrix(t, rows, k), w = matrix(t, n, k), y = matrix(t, rows, n);
    cases->push_back({"gemm fprop " + shape, describe(OCT_GEMM, {x, w, {}, {}, {}, y}, {0, 1, 0, 0})});
    cases->push_back(
        {"gemm fprop bias " + shape, describe(OCT_GEMM, {x, w, {}, {}, matrix(t, 1, n), y}, {0, 1, 0, 0})});
    cases->push_back({"gemm dgrad " + shape, describe(OCT_GEMM, {y, w, {}, {}, {}, x}, {0, 0, 0, 0})});
    cases->push_back({"gemm wgrad add " + shape,
                      describe(OCT_GEMM, {y, x, {}, {}, {}, matrix(OCT_F32, n, k)}, {1, 0, 1, 0})});
    if (t == OCT_F32) return;
    const oct_matrix scale = matrix(OCT_F32, 1, 1), xq = matrix(OCT_E4M3, rows, k),
                     wq = matrix(OCT_E4M3, n, k);
    cases->push_back(
        {"gemm FP8 fast " + shape, describe(OCT_GEMM, {xq, wq, scale, scale, {}, y}, {0, 1, 0, 1})});
    cases->push_back(
        {"gemm FP8 wgrad add " + shape,
         describe(
             OCT_GEMM,
             {matrix(OCT_E5M2, n, rows), matrix(OCT_E4M3, k, rows), scale, scale, {}, matrix(OCT_F32, n, k)},
             {0, 1, 1, 0})});
  };
  product("qkv", m.tokens, (m.heads + 2 * m.key_heads) * m.size, m.hidden);
  product("up", m.tokens, m.inner, m.hidden);
  product("down", m.tokens, m.hidden, m.inner);
}

void row_cases(const Model& m, oct_dtype t, std::vector<Case>* cases) {
  const std::int64_t T = m.tokens, H = m.hidden, F = m.inner;
  const oct_matrix x = matrix(t, T, H), w = matrix(t, 1, H), statistics = matrix(OCT_F32, T, 2),
                   gradient = matrix(OCT_F32, 1, H), wide = matrix(t, T, F), pair = matrix(t, T, 2 * F);
  const auto add = [&](const char* what, const oct_operation& d) { cases->push_back({what, d}); };
  add("copy to the same", describe(OCT_COPY, {wide, wide}));
  add("convert to F32", describe(OCT_COPY, {wide, matrix(OCT_F32, T, F)}));
  add("add", describe(OCT_ADD, {x, x, {}, x}));
  add("column_sum", describe(OCT_COLUMN_SUM, {wide, matrix(OCT_F32, 1, F)}, {1}));
  add("norm layer", describe(OCT_NORM, {x, w, w, x, statistics}, {0}, {1e-5}));
  add("norm rms", describe(OCT_NORM, {x, w, {}, x, statistics}, {1}, {1e-5}));
  add("norm_backward layer",
      describe(OCT_NORM_BACKWARD, {x, x, w, statistics, x, x, gradient, gradient}, {0, 1}));
  add("norm_backward rms", describe(OCT_NORM_BACKWARD, {x, x, w, statistics, x, x, gradient}, {1, 1}));
  add("gelu", describe(OCT_GELU, {wide, wide}));
  add("gelu_backward", describe(OCT_GELU_BACKWARD, {wide, wide, wide}));
  add("swiglu", describe(OCT_SWIGLU, {pair, wide}));
  add("swiglu_backward", describe(OCT_SWIGLU_BACKWARD, {pair, wide, pair}));
  const std::int64_t S = m.sequence, N = m.heads, K = m.key_heads, D = m.size;
  const oct_matrix qkv = matrix(t, T, (N + 2 * K) * D), out = matrix(t, T, N * D),
                   lse = matrix(OCT_F32, T, N);
  add("rope", describe(OCT_ROPE, {qkv}, {S, N, K, D, 1, 0, 1}, {10000}));
  add("attention", describe(OCT_ATTENTION, {qkv, out, lse}, {S, N, K, D}, {1 / std::sqrt(double(D))}));
  add("attention_backward",
      describe(OCT_ATTENTION_BACKWARD, {qkv, out, lse, out, qkv}, {S, N, K, D}, {1 / std::sqrt(double(D))}));
  const oct_matrix ids = matrix(OCT_I32, 1, T), table = matrix(t, m.vocabulary, H);
  add("embedding", describe(OCT_EMBEDDING, {ids, table, x}, {0}));
  add("embedding_backward",
      describe(OCT_EMBEDDING_BACKWARD, {ids, x, matrix(OCT_F32, m.vocabulary, H)}, {0, 1}));
  add("position_backward", describe(OCT_POSITION_BACKWARD, {x, matrix(OCT_F32, S, H)}, {0, S, 1}));
  const std::int64_t rows = T / 4;  // logits of a quarter: they are large
  const oct_matrix logits = matrix(t, rows, m.vocabulary), targets = matrix(OCT_I32, 1, rows),
                   s3 = matrix(OCT_F32, rows, 3);
  add("loss_statistics", describe(OCT_LOSS_STATISTICS, {logits, targets, s3}, {0, m.vocabulary}));
  add("loss", describe(OCT_LOSS, {logits, targets, s3, matrix(OCT_F64, 1, 8), logits, matrix(OCT_F64, 1, 1)},
                       {0, m.vocabulary, 1, 1}));
  if (t != OCT_BF16) return;
  const oct_matrix scale = matrix(OCT_F32, 1, 1), amax = matrix(OCT_U32, 1, 1),
                   counters = matrix(OCT_U64, 1, 3), row = matrix(OCT_E4M3, T, F),
                   column = matrix(OCT_E4M3, F, T);
  add("quantize row", describe(OCT_QUANTIZE, {wide, scale, row, {}, amax, counters}));
  add("quantize row, column", describe(OCT_QUANTIZE, {wide, scale, row, column, amax, counters}));
  add("quantize row of hidden",
      describe(OCT_QUANTIZE, {x, scale, matrix(OCT_E4M3, T, H), {}, amax, counters}));
  const oct_matrix codes = matrix(OCT_E4M3, T, H), gradients = matrix(OCT_E5M2, T, F),
                   pairs = matrix(OCT_E5M2, T, 2 * F);
  add("norm layer with cast, not kept",
      describe(OCT_NORM, {x, w, w, {}, statistics, scale, codes, amax, counters}, {0}, {1e-5}));
  add("norm rms with cast, not kept",
      describe(OCT_NORM, {x, w, {}, {}, statistics, scale, codes, amax, counters}, {1}, {1e-5}));
  add("norm_backward layer with cast",
      describe(OCT_NORM_BACKWARD,
               {x, x, w, statistics, x, x, gradient, gradient, scale, matrix(OCT_E5M2, T, H), amax, counters},
               {0, 1}));
  add("gelu with cast, not kept", describe(OCT_GELU, {wide, {}, scale, row, amax, counters}));
  add("gelu_backward with cast",
      describe(OCT_GELU_BACKWARD, {wide, wide, wide, scale, gradients, amax, counters}));
  add("swiglu with cast, not kept", describe(OCT_SWIGLU, {pair, {}, scale, row, amax, counters}));
  add("swiglu_backward with cast, not kept",
      describe(OCT_SWIGLU_BACKWARD, {pair, wide, {}, scale, pairs, amax, counters}));
  add("amax", describe(OCT_AMAX, {wide, amax}, {1}));
  add("transpose of bytes", describe(OCT_TRANSPOSE, {row, column}));
}

void optimizer_cases(std::vector<Case>* cases) {
  const std::int64_t n = std::int64_t(1) << 28;
  const oct_matrix f = matrix(OCT_F32, 1, n), b = matrix(OCT_BF16, 1, n), scalars = matrix(OCT_F64, 1, 8),
                   result = matrix(OCT_F64, 1, 4);
  cases->push_back({"sum_of_squares", describe(OCT_SUM_OF_SQUARES, {f, matrix(OCT_F64, 1, 1)}, {0})});
  cases->push_back({"clip", describe(OCT_CLIP, {result, scalars, result}, {}, {1})});
  cases->push_back(
      {"adamw", describe(OCT_ADAMW, {f, scalars, result, f, f, f, b}, {}, {0.9, 0.95, 1e-8, 0.1})});
  cases->push_back({"fill", describe(OCT_FILL, {f}, {}, {1})});
}

/// Random numbers of a type; ids below 1000.
class Source {
 public:
  explicit Source(const Device& device) : device_(device), values_(kCount) {
    std::mt19937_64 generator(1);
    std::normal_distribution<float> normal;
    for (float& v : values_) v = normal(generator);
  }
  void* make(const oct_matrix& m) const {
    const std::size_t count = std::size_t(m.rows * m.pitch), size = std::size_t(size_of(DType(m.dtype)));
    char* memory = static_cast<char*>(device_.allocate(OCT_MEMORY_DEVICE, count * size));
    const std::vector<unsigned char> block = encode(DType(m.dtype));
    for (std::size_t done = 0; done < count * size; done += block.size()) {
      const std::size_t bytes = std::min(block.size(), count * size - done);
      device_.check(
          device_.table().copy(device_.handle(), memory + done, block.data(), bytes, device_.lane()), "copy");
    }
    device_.synchronize();
    return memory;
  }

 private:
  static constexpr std::size_t kCount = std::size_t(1) << 20;
  std::vector<unsigned char> encode(DType type) const {
    const std::size_t size = std::size_t(size_of(type));
    std::vector<unsigned char> block(kCount * size);
    for (std::size_t i = 0; i < kCount; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, &values_[i], 4);
      const std::int32_t id = std::int32_t(bits >> 3) % 1000;
      const double positive = 1 + double(i % 7) / 8;
      const std::uint16_t half = std::uint16_t(bits >> 16);
      const auto byte =
          static_cast<unsigned char>(0x30 | (bits >> 5 & 0x8f));  // about unit size in both FP8 formats
      const void* from = type == OCT_F64    ? static_cast<const void*>(&positive)
                         : type == OCT_I32  ? static_cast<const void*>(&id)
                         : type == OCT_BF16 ? static_cast<const void*>(&half)
                         : size == 1        ? static_cast<const void*>(&byte)
                                            : static_cast<const void*>(&values_[i]);
      if (type == OCT_U32 || type == OCT_U64) continue;  // amaxes and counters begin at 0
      std::memcpy(&block[i * size], from, size);
    }
    return block;
  }

  const Device& device_;
  std::vector<float> values_;
};

/// Seconds of one execution.
double time_once(const Device& device, std::int32_t id, void* const* pointers, int repeats, double* stamps) {
  const oct_device_table& t = device.table();
  device.check(t.stamp(device.handle(), device.lane(), stamps), "stamp");
  for (int k = 0; k < repeats; ++k)
    device.check(t.enqueue(device.handle(), id, pointers, device.lane()), "enqueue");
  device.check(t.stamp(device.handle(), device.lane(), stamps + 1), "stamp");
  device.synchronize();
  return (stamps[1] - stamps[0]) / repeats;
}

void print_case(const Device& device, const Source& source, const Case& c, double* stamps) {
  const oct_support s = device.support(c.operation);
  const oct_matrix& first = c.operation.operand[0];
  const std::string shape = std::string(name(DType(first.dtype))) + " " + std::to_string(first.rows) + " x " +
                            std::to_string(first.columns);
  if (s.supported == 0) {
    std::printf("%-42s %-22s refused: %s\n", c.name.c_str(), shape.c_str(), s.reason);
    return;
  }
  std::vector<void*> pointers;
  for (int k = 0; k < c.operation.operands; ++k)
    pointers.push_back(c.operation.operand[k].rows > 0 ? source.make(c.operation.operand[k]) : nullptr);
  pointers.push_back(device.allocate(OCT_MEMORY_DEVICE, std::size_t(s.workspace_bytes)));
  const std::int32_t id = device.prepare(c.operation);
  time_once(device, id, pointers.data(), 1, stamps);
  const double once = time_once(device, id, pointers.data(), 1, stamps);
  const int repeats = int(std::clamp(3e-4 / once, 1., 50.));
  std::vector<double> times;
  for (int k = 0; k < 20; ++k) times.push_back(time_once(device, id, pointers.data(), repeats, stamps));
  std::sort(times.begin(), times.end());
  const double median = (times[9] + times[10]) / 2;
  std::printf("%-42s %-22s %10.1f us (least %.1f) %8.1f GB/s", c.name.c_str(), shape.c_str(), median * 1e6,
              times[0] * 1e6, s.bytes / median * 1e-9);
  if (c.operation.op == OCT_GEMM || c.operation.op == OCT_ATTENTION ||
      c.operation.op == OCT_ATTENTION_BACKWARD)
    std::printf(" %8.1f TFLOP/s", s.flops / median * 1e-12);
  std::printf("\n");
  std::fflush(stdout);
  for (void* memory : pointers)
    if (memory != nullptr) device.release(OCT_MEMORY_DEVICE, memory);
}

}  // namespace

void print_timings(const Device& device) {
  constexpr Model kModels[] = {{"Llama 8B", 8192, 4096, 4096, 14336, 32, 8, 128, 128256},
                               {"GPT-2 124M", 16384, 1024, 768, 3072, 12, 12, 64, 50304},
                               {"GPT-2 1.5B", 8192, 1024, 1600, 6400, 25, 25, 64, 50304}};
  oct_device_properties p{};
  p.struct_size = sizeof p;
  device.check(device.table().properties(device.handle(), &p), "properties");
  std::printf("\n%s, %.1f GiB\nmedian of 20; rates by the operations and bytes that the device states\n",
              p.description, double(p.memory_bytes) / (1 << 30));
  const Source source(device);
  auto* stamps = static_cast<double*>(device.allocate(OCT_MEMORY_PINNED, 2 * sizeof(double)));
  const auto print = [&](const std::vector<Case>& cases) {
    for (const Case& c : cases) {
      try {
        print_case(device, source, c, stamps);
      } catch (const std::exception& error) {
        std::printf("%-42s failed: %s\n", c.name.c_str(), error.what());
      }
    }
  };
  for (const oct_dtype type : {OCT_BF16, OCT_F32}) {
    for (const Model& model : kModels) {
      if (type == OCT_F32 && model.hidden != 768) continue;
      std::printf("\n-- %s, %s, %lld tokens in sequences of %lld\n", model.name, name(type),
                  static_cast<long long>(model.tokens), static_cast<long long>(model.sequence));
      std::vector<Case> cases;
      gemm_cases(model, type, &cases);
      row_cases(model, type, &cases);
      print(cases);
    }
  }
  std::printf("\n-- optimiser\n");
  std::vector<Case> cases;
  optimizer_cases(&cases);
  print(cases);
  device.release(OCT_MEMORY_PINNED, stamps);
}

}  // namespace octachoron::gpu
