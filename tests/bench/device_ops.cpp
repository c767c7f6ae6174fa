/// Rates of a device's operations: GFLOP/s of products (beside plain oneDNN) and attention, GB/s of the rest,
/// by the operations and bytes that the device itself states. OCTACHORON_DEVICE_PLUGIN chooses the plugin,
/// OCTACHORON_THREADS its threads.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/plugin/abi.h"
#include "core/plugin/dtype.h"
#ifdef OCTACHORON_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

namespace octachoron {
namespace {

struct Bench {
  const oct_device_table* table = nullptr;
  oct_device* device = nullptr;
  oct_lane* lane = nullptr;
};

int threads() {
  const char* asked = std::getenv("OCTACHORON_THREADS");
  return asked != nullptr ? std::atoi(asked) : 1;
}

Bench open() {
  const char* asked = std::getenv("OCTACHORON_DEVICE_PLUGIN");
  void* library = dlopen(asked != nullptr ? asked : OCTACHORON_BINARY_DIR "/lib/octachoron/device-cpu.so",
                         RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw std::runtime_error(dlerror());
  Bench b;
  b.table = static_cast<const oct_device_table*>(
      reinterpret_cast<oct_plugin_entry>(dlsym(library, OCT_PLUGIN_ENTRY))()->table);
  oct_host host{};
  host.struct_size = sizeof host;
  host.size = host.local_size = 1;
  const oct_device_options options = {sizeof options, threads(), 0, nullptr};
  if (b.table->create(&host, &options, &b.device) != OCT_OK) throw std::runtime_error("create");
  if (b.table->lane_create(b.device, "bench", 0, &b.lane) != OCT_OK) throw std::runtime_error("lane_create");
  return b;
}

oct_matrix matrix(int type, std::int64_t rows, std::int64_t columns) {
  return {type, 0, rows, columns, columns};
}

oct_operation describe(int op, std::initializer_list<oct_matrix> operands,
                       std::initializer_list<std::int64_t> i = {}, double f0 = 0) {
  oct_operation d{};
  d.struct_size = sizeof d;
  d.op = op;
  for (const oct_matrix& m : operands) d.operand[d.operands++] = m;
  std::copy(i.begin(), i.end(), d.i);
  d.f[0] = f0;
  return d;
}

/// Memory of the operands, with small positive numbers (zero bits for integers), and the workspace.
std::vector<void*> allocate(const Bench& b, const oct_operation& op, std::int64_t workspace) {
  std::vector<void*> pointers;
  for (int k = 0; k <= op.operands; ++k) {
    const oct_matrix& m = op.operand[k];
    const std::int64_t n = m.rows * m.pitch;
    const std::int64_t bytes = k == op.operands ? workspace : n * size_of(DType(m.dtype));
    void* memory = nullptr;
    if (bytes > 0 && b.table->allocate(b.device, OCT_MEMORY_DEVICE, std::size_t(bytes), &memory) != OCT_OK)
      throw std::runtime_error("allocate");
    if (bytes > 0) std::memset(memory, 0, std::size_t(bytes));
    for (std::int64_t e = 0; k < op.operands && e < n; ++e) {
      if (m.dtype == OCT_F32) static_cast<float*>(memory)[e] = float(e % 97) * 0.01f;
      if (m.dtype == OCT_F64) static_cast<double*>(memory)[e] = double(e % 97) * 0.01;
      if (m.dtype == OCT_BF16) static_cast<std::uint16_t*>(memory)[e] = std::uint16_t(0x3e00 + e % 97);
      if (m.dtype == OCT_I32) static_cast<std::int32_t*>(memory)[e] = std::int32_t(e * 7919 % 1000);
    }
    pointers.push_back(memory);
  }
  return pointers;
}

void run(benchmark::State& state, const oct_operation& op) {
  const Bench b = open();
  oct_support support{};
  support.struct_size = sizeof support;
  b.table->query(b.device, &op, &support);
  if (!support.supported) return state.SkipWithError(support.reason);
  std::int32_t id = 0;
  b.table->prepare(b.device, &op, &id);
  const std::vector<void*> pointers = allocate(b, op, support.workspace_bytes);
  for (auto _ : state) {
    b.table->enqueue(b.device, id, pointers.data(), b.lane);
    b.table->synchronize(b.device);
  }
  const double n = double(state.iterations());
  state.counters["GF/s"] = benchmark::Counter(support.flops * 1e-9 * n, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(support.bytes * 1e-9 * n, benchmark::Counter::kIsRate);
  for (void* memory : pointers) b.table->release(b.device, OCT_MEMORY_DEVICE, memory);
  b.table->lane_destroy(b.device, b.lane);
  b.table->destroy(b.device);
}

oct_operation gemm(int type, std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb) {
  const oct_matrix none{};
  return describe(OCT_GEMM,
                  {ta ? matrix(type, k, m) : matrix(type, m, k), tb ? matrix(type, n, k) : matrix(type, k, n),
                   none, none, none, matrix(type == OCT_F64 ? OCT_F64 : OCT_F32, m, n)},
                  {ta, tb, 0, 0});
}

#ifdef OCTACHORON_ONEDNN
void plain_onednn(benchmark::State& state, std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb) {
  std::vector<float> a(std::size_t(m * k), 0.5f), b(std::size_t(k * n), 0.5f), d(std::size_t(m * n));
  for (auto _ : state) {
    dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.f, a.data(), ta ? m : k, b.data(), tb ? k : n, 0.f,
               d.data(), n);
  }
  state.counters["GF/s"] = benchmark::Counter(
      2e-9 * double(m) * double(n) * double(k) * double(state.iterations()), benchmark::Counter::kIsRate);
}
#endif

void measure(benchmark::internal::Benchmark* b) {
  b->MinTime(0.1);
  threads() == 1 ? b->MeasureProcessCPUTime() : b->UseRealTime();
}

void add(const std::string& name, const oct_operation& op) {
  measure(benchmark::RegisterBenchmark(name.c_str(), [op](benchmark::State& s) { run(s, op); }));
}

void add_products() {
  struct Shape {
    std::int64_t m, n, k;
    bool ta, tb;
  };
  for (const Shape s : {Shape{1024, 768, 768, false, true}, Shape{1024, 3072, 768, false, true},
                        Shape{1024, 768, 3072, false, false}, Shape{3072, 768, 1024, true, false},
                        Shape{64, 64, 64, false, true}, Shape{1024, 1024, 1024, false, false}}) {
    const std::string shape = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
                              (s.ta ? "/AT" : "") + (s.tb ? "/BT" : "");
    add("gemm/f32/" + shape, gemm(OCT_F32, s.m, s.n, s.k, s.ta, s.tb));
#ifdef OCTACHORON_ONEDNN
    if (threads() == 1) {
      measure(benchmark::RegisterBenchmark(("onednn_sgemm/" + shape).c_str(), [s](benchmark::State& state) {
        plain_onednn(state, s.m, s.n, s.k, s.ta, s.tb);
      }));
    }
#endif
  }
  add("gemm/bf16/1024x1024x1024", gemm(OCT_BF16, 1024, 1024, 1024, false, false));
  add("gemm/f64/512x512x512", gemm(OCT_F64, 512, 512, 512, false, false));
  add("gemm/f64/512x512x512/AT/BT", gemm(OCT_F64, 512, 512, 512, true, true));
}

void add_attention() {
  for (const int type : {OCT_F32, OCT_F64, OCT_BF16}) {
    for (const std::int64_t d : {32, 64, 128}) {
      const std::int64_t s = 1024, n = 4;
      const int w = type == OCT_F64 ? OCT_F64 : OCT_F32;
      const oct_matrix qkv = matrix(type, s, 3 * n * d), out = matrix(type, s, n * d), lse = matrix(w, s, n);
      const std::string name = std::string(octachoron::name(DType(type))) + "/S1024/N4/D" + std::to_string(d);
      add("attention/" + name, describe(OCT_ATTENTION, {qkv, out, lse}, {s, n, n, d}, 0.125));
      add("attention_backward/" + name,
          describe(OCT_ATTENTION_BACKWARD, {qkv, out, lse, out, qkv}, {s, n, n, d}, 0.125));
    }
  }
}

void add_others() {
  const std::int64_t t = 1024, h = 768, v = 8192, p = 1 << 20;
  for (const int type : {OCT_F32, OCT_BF16}) {
    const int w = OCT_F32;
    const std::string to = std::string("/") + octachoron::name(DType(type));
    const oct_matrix x = matrix(type, t, h), row = matrix(type, 1, h), wide = matrix(w, 1, h),
                     logits = matrix(type, t, v);
    add("copy" + to, describe(OCT_COPY, {x, matrix(OCT_F32, t, h)}));
    add("add_bias" + to, describe(OCT_ADD, {x, x, row, x}));
    add("column_sum" + to, describe(OCT_COLUMN_SUM, {x, wide}, {0}));
    add("norm" + to, describe(OCT_NORM, {x, row, row, x, matrix(w, t, 2)}, {0}, 1e-5));
    add("norm_backward" + to,
        describe(OCT_NORM_BACKWARD, {x, x, row, matrix(w, t, 2), x, x, wide, wide}, {0, 0}));
    add("gelu" + to, describe(OCT_GELU, {x, x}));
    add("gelu_backward" + to, describe(OCT_GELU_BACKWARD, {x, x, x}));
    add("swiglu" + to, describe(OCT_SWIGLU, {matrix(type, t, 2 * h), x}));
    add("rope" + to, describe(OCT_ROPE, {matrix(type, t, 3 * h)}, {t, 12, 12, 64, 1, 0, 1}, 1e4));
    add("embedding_backward" + to,
        describe(OCT_EMBEDDING_BACKWARD, {matrix(OCT_I32, 1, t), x, matrix(w, 1000, h)}, {0, 0}));
    add("loss_statistics" + to,
        describe(OCT_LOSS_STATISTICS, {logits, matrix(OCT_I32, 1, t), matrix(w, t, 3)}, {0, v}));
    add("loss" + to, describe(OCT_LOSS,
                              {logits, matrix(OCT_I32, 1, t), matrix(w, t, 3), matrix(OCT_F64, 1, 8), logits,
                               matrix(OCT_F64, 1, 1)},
                              {0, v, 1, 1}));
    add("sum_of_squares" + to,
        describe(OCT_SUM_OF_SQUARES, {matrix(type, 1, p), matrix(OCT_F64, 1, 1)}, {0}));
    oct_operation adamw =
        describe(OCT_ADAMW, {matrix(w, 1, p), matrix(OCT_F64, 1, 8), matrix(OCT_F64, 1, 4), matrix(w, 1, p),
                             matrix(w, 1, p), matrix(w, 1, p), matrix(type, 1, p)});
    adamw.f[0] = 0.9, adamw.f[1] = 0.95, adamw.f[2] = 1e-8;
    add("adamw" + to, adamw);
  }
}

void add_fp8() {
  const std::int64_t t = 1024, h = 3072;
  const oct_matrix none{}, scale = matrix(OCT_F32, 1, 1), amax = matrix(OCT_U32, 1, 1),
                           counters = matrix(OCT_U64, 1, 3);
  for (const int type : {OCT_F32, OCT_BF16}) {
    const oct_matrix x = matrix(type, t, h);
    add(std::string("amax/") + octachoron::name(DType(type)), describe(OCT_AMAX, {x, amax}, {1}));
    for (const int format : {OCT_E4M3, OCT_E5M2}) {
      const oct_matrix row = matrix(format, t, h), column = matrix(format, h, t);
      const std::string name =
          std::string(octachoron::name(DType(type))) + "/" + octachoron::name(DType(format));
      add("quantize/" + name + "/row", describe(OCT_QUANTIZE, {x, scale, row, none, amax, counters}));
      add("quantize/" + name + "/both", describe(OCT_QUANTIZE, {x, scale, row, column, amax, counters}));
    }
  }
  add("transpose/e4m3", describe(OCT_TRANSPOSE, {matrix(OCT_E4M3, t, h), matrix(OCT_E4M3, h, t)}));
  const oct_matrix a = matrix(OCT_E4M3, 1024, 1024), d = matrix(OCT_BF16, 1024, 1024);
  add("gemm/e4m3/1024x1024x1024/BT", describe(OCT_GEMM, {a, a, scale, scale, none, d}, {0, 1, 0, 1}));
  add("copy/e4m3", describe(OCT_COPY, {a, matrix(OCT_F32, 1024, 1024)}));
}

}  // namespace
}  // namespace octachoron

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  octachoron::add_products();
  octachoron::add_attention();
  octachoron::add_others();
  octachoron::add_fp8();
  benchmark::RunSpecifiedBenchmarks();
}
