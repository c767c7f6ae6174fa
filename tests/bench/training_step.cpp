/// How much of a training step the matrix products leave over: the step's time beside the time that plain
/// oneDNN needs for the products of that step, at their own shapes, with all threads, alternating in one run.
/// One rank. Prints the ratio and where the rest goes. Usage: bench_training_step [section.key=value]...
#include <mpi.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "core/config/validate.h"
#include "core/parallel/world.h"
#include "core/train/session.h"

namespace octachoron {
namespace {

constexpr const char* kParameters = R"([run]
steps = 1
[model]
layers = 6
hidden = 512
heads = 8
sequence = 256
vocab = 8192
[batch]
global = 4
micro = 4
[data]
train = none-is-read
format = text
[backend]
plugin_path = )" OCTACHORON_BINARY_DIR "/lib/octachoron\n";

using Clock = std::chrono::steady_clock;
double since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// m, n, k, transpose a, transpose b, accumulate.
using Product = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, bool>;

std::map<Product, int> products_of(const StepProgram& program) {
  std::map<Product, int> products;
  for (const Call& call : program.schedule.calls)
    for (const Operation& operation : program.segments[call.segment].operations) {
      if (operation.op != OCT_GEMM) continue;
      const View &a = operation.operands[0].view, &d = operation.operands.back().view;
      const bool transpose_a = operation.i[0] != 0;
      ++products[{d.rows, d.columns, transpose_a ? a.rows : a.columns, transpose_a, operation.i[1] != 0,
                  operation.i[2] != 0}];
    }
  return products;
}

double flops(const std::map<Product, int>& products) {
  double sum = 0;
  for (const auto& [p, count] : products)
    sum += 2.0 * double(std::get<0>(p)) * double(std::get<1>(p)) * double(std::get<2>(p)) * count;
  return sum;
}

/// One product in plain oneDNN, as a program of its own would call it.
class PlainProduct {
 public:
  explicit PlainProduct(const Product& product) : stream_(engine_) {
    const auto [m, n, k, transpose_a, transpose_b, accumulate] = product;
    const auto type = dnnl::memory::data_type::f32;
    const auto description = [&](std::int64_t rows, std::int64_t columns, bool transposed) {
      return dnnl::memory::desc({rows, columns}, type,
                                transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1});
    };
    const auto a = description(m, k, transpose_a), b = description(k, n, transpose_b),
               d = description(m, n, false);
    dnnl::primitive_attr attributes;
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.f);
      attributes.set_post_ops(sum);
    }
#if DNNL_VERSION_MAJOR >= 3
    matmul_ = dnnl::matmul({engine_, a, b, d, attributes});
#else
    matmul_ = dnnl::matmul({{a, b, d}, attributes, engine_});
#endif
    arguments_ = {{DNNL_ARG_SRC, random(a)}, {DNNL_ARG_WEIGHTS, random(b)}, {DNNL_ARG_DST, random(d)}};
  }
  double run() {
    const Clock::time_point begin = Clock::now();
    matmul_.execute(stream_, arguments_);
    stream_.wait();
    return since(begin);
  }

 private:
  dnnl::memory random(const dnnl::memory::desc& description) {
    dnnl::memory memory(description, engine_);
    auto* data = static_cast<float*>(memory.get_data_handle());
    std::minstd_rand number(1);
    for (std::size_t i = 0; i < description.get_size() / sizeof(float); ++i)
      data[i] = float(number() % 1000) / 1000 - 0.5f;
    return memory;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_;
  dnnl::matmul matmul_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

RankBatch random_batch(const Parameters& parameters) {
  RankBatch batch;
  std::minstd_rand number(1);
  const std::int64_t tokens = parameters.batch.global * parameters.model.sequence;
  for (auto* ids : {&batch.ids, &batch.targets})
    for (std::int64_t t = 0; t < tokens; ++t)
      ids->push_back(std::int32_t(number() % std::uint32_t(parameters.model.vocab)));
  batch.valid_targets = batch.global_valid_targets = tokens;
  return batch;
}

/// Medians over rounds.
struct Measured {
  std::vector<double> step_s, plain_s;
  std::map<std::string, std::vector<double>>
      by_operation_s;  ///< each operation waited for, so without overlap
};

void observe(TrainingSession& session, Measured& measured) {
  std::map<std::string, double> seconds;
  for (const OperationRecord& record : session.training().run_observed())
    seconds[name(record.issue->operation->op)] += record.end_s - record.begin_s;
  for (const auto& [op, s] : seconds) measured.by_operation_s[op].push_back(s);
}

void print(const Measured& measured, double work) {
  const double step = median(measured.step_s), ideal = median(measured.plain_s);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < measured.step_s.size(); ++i)
    ratios.push_back(measured.plain_s[i] / measured.step_s[i]);
  std::printf(
      "step %.1f ms (%.1f GFLOP/s of its products), plain oneDNN %.1f ms (%.1f GFLOP/s): ratio %.2f, median "
      "of %zu "
      "pairs\n",
      step * 1e3, work / step / 1e9, ideal * 1e3, work / ideal / 1e9, median(ratios), ratios.size());
  std::vector<std::pair<double, std::string>> rows;
  double sum = 0;
  for (const auto& [op, s] : measured.by_operation_s) rows.push_back({median(s), op}), sum += median(s);
  std::sort(rows.rbegin(), rows.rend());
  std::printf("| where the time goes | ms | of all operations |\n|---|---|---|\n");
  std::printf("| plain oneDNN, the same products | %.1f | %.1f %% |\n", ideal * 1e3, 100 * ideal / sum);
  for (const auto& [s, op] : rows)
    std::printf("| %s | %.1f | %.1f %% |\n", op.c_str(), s * 1e3, 100 * s / sum);
}

int run(const std::vector<std::string>& overrides) {
  ParsedParameters parsed = parse_parameter_text(kParameters, "bench", overrides);
  finalize(parsed, 256);
  validate(parsed.values, 1);
  const World world(MPI_COMM_WORLD);
  Backend backend(parsed.values, world);
  TrainingSession session(parsed.values, world, backend);
  session.initialise();
  const RankBatch batch = random_batch(parsed.values);
  const auto products = products_of(session.training().program());
  omp_set_num_threads(backend.threads());
  std::map<Product, PlainProduct> plain;
  for (const auto& [product, count] : products) plain.try_emplace(product, product);

  std::printf("%lld parameters, %lld tokens a step, %d threads, %s\n",
              static_cast<long long>(session.programs().set.global_elements()),
              static_cast<long long>(batch.ids.size()), backend.threads(),
              backend.device().properties().description);
  Measured measured;
  for (int round = 0; round < 6; ++round) {  // alternating, the first round warms up
    const Clock::time_point begin = Clock::now();
    session.step(batch, 1e-4, round + 1);
    const double step = since(begin);
    double sum = 0;
    for (auto& [product, one] : plain) {
      one.run();
      sum += one.run() * products.at(product);
    }
    if (round == 0) continue;
    measured.step_s.push_back(step), measured.plain_s.push_back(sum);
    observe(session, measured);
  }
  print(measured, flops(products));
  return 0;
}

}  // namespace
}  // namespace octachoron

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const int status = octachoron::run({argv + 1, argv + argc});
  MPI_Finalize();
  return status;
}
