// Which GEMMs run in FP8, what is kept of their operands, and that the programs with casts are sound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/text.h"
#include "core/model/quantizer.h"
#include "core/report/grid_roles.h"
#include "tests/schedule/small_model.h"

namespace octachoron {
namespace {

using testing::IsEmpty;
using Strings = std::vector<std::string>;

RankPrograms programs(const Strings& overrides, int rank = 0) {
  return small_model::programs(small_model::fp8_parameters(overrides), rank);
}

// Modules with a pass in FP8.
std::set<std::string> quantized(const Strings& overrides) {
  std::set<std::string> names;
  for (const ModuleQuantization& module : programs(overrides).quantization.modules)
    if (module.any()) names.insert(module.module);
  return names;
}

std::set<std::string> linears(const std::set<int>& layers, const std::set<std::string>& others = {}) {
  std::set<std::string> names = others;
  for (const int layer : layers)
    for (const char* linear : {"attention.qkv", "attention.out", "mlp.fc1", "mlp.fc2"})
      names.insert(text("layers.", layer, ".", linear));
  return names;
}

TEST(Fp8Plan, TakesTheLayersAndModulesThatItIsTold) {
  EXPECT_EQ(quantized({}), linears({0, 1}));
  EXPECT_EQ(quantized({"precision.head=fp8"}), linears({0, 1}, {"head"}));
  EXPECT_EQ(
      quantized({"model.layers=4", "precision.high_precision_first=1", "precision.high_precision_last=2"}),
      linears({1}));
  EXPECT_EQ(quantized({"precision.high_precision_first=2"}), linears({}));
  EXPECT_EQ(quantized({"precision.exclude=layers.0.*,*.mlp.fc1"}),
            (std::set<std::string>{"layers.1.attention.qkv", "layers.1.attention.out", "layers.1.mlp.fc2"}));
  EXPECT_EQ(quantized({"backend.precision=bf16"}), linears({}));
}

TEST(Fp8Plan, SaysOfEachProductWhatItRunsIn) {
  const QuantizationPlan plan =
      programs({"precision.exclude=*.fc1", "precision.high_precision_last=1"}).quantization;
  std::set<std::string> lines;
  for (const PrecisionRow& row : plan.table)
    lines.insert(text(row.module, " ", row.pass, ": ", row.format, "; ", row.reason));
  EXPECT_EQ(plan.table.size(), 3u * (2 * 4 + 1));
  for (const char* line : {"layers.0.mlp.fc2 fprop: e4m3 x e4m3; ", "layers.0.mlp.fc2 dgrad: e5m2 x e4m3; ",
                           "layers.0.mlp.fc2 wgrad: e5m2 x e4m3; ",
                           "layers.0.mlp.fc1 fprop: bf16; bf16: precision.exclude has *.fc1",
                           "layers.1.mlp.fc2 wgrad: bf16; bf16: precision.high_precision_last = 1",
                           "head fprop: bf16; bf16: precision.head"})
    EXPECT_TRUE(lines.count(line)) << line;
}

TEST(Fp8Plan, OneRowATensorWhateverTheGrid) {
  for (const char* recipe : {"fp8-delayed", "fp8-current"})
    for (const Strings& grid : {Strings{}, {"grid.dp=2"}, {"grid.tp=2"}, {"grid.tp=4"}}) {
      Strings overrides = grid;
      overrides.push_back(text("backend.precision=", recipe));
      const QuantizationPlan plan = programs(overrides).quantization;
      std::set<std::string> names;
      int weights = 0;
      for (const QuantizedTensor& tensor : plan.tensors)
        names.insert(tensor.name), weights += tensor.is_weight;
      EXPECT_EQ(names.size(), plan.tensors.size());
      EXPECT_EQ(plan.tensors.size(), 3u * 4 * 2);
      EXPECT_EQ(weights, 4 * 2);
      for (const QuantizedTensor& tensor : plan.tensors)
        EXPECT_EQ(tensor.format(), tensor.name.ends_with("grad_output") ? OCT_E5M2 : OCT_E4M3) << tensor.name;
    }
  for (const QuantizedTensor& tensor : programs({"precision.format=e4m3"}).quantization.tensors)
    EXPECT_EQ(tensor.format(), OCT_E4M3) << tensor.name;
}

// Bytes of the buffers of weights, by kind.
struct WeightBytes {
  std::int64_t plain = 0, cast = 0;
};
WeightBytes weight_bytes(const RankPrograms& programs) {
  WeightBytes sum;
  for (const Buffer& buffer : programs.training.program.buffers) {
    if (buffer.name.starts_with("bucket.") && buffer.name.ends_with(".weight")) sum.plain += buffer.bytes;
    if (buffer.name.starts_with("bucket.") && buffer.name.ends_with(".cast")) sum.cast += buffer.bytes;
  }
  return sum;
}

constexpr std::int64_t L = 2, H = 128, S = 64, V = 256;  // as in fp8_traffic_test, without padding
const Strings kExact{"model.hidden=128", "model.vocab=256"};
Strings exact(Strings more) {
  more.insert(more.begin(), kExact.begin(), kExact.end());
  return more;
}

TEST(Fp8Weights, ExistOnceInOneByte) {
  for (const std::int64_t tp : {1, 2})
    for (const int dp : {1, 2}) {
      const Strings grid{text("grid.tp=", tp), text("grid.dp=", dp)};
      const std::int64_t linear = 12 * L * H * H / tp, table = V * H / tp,
                         vectors = 7 * L * H / tp + 6 * L * H + 2 * H + S * H;
      const auto with = [&](const char* key) {
        Strings overrides = exact(grid);
        if (key) overrides.push_back(key);
        return weight_bytes(programs(overrides));
      };
      EXPECT_EQ(with(nullptr).cast, linear) << grid[0];
      EXPECT_EQ(with(nullptr).plain, 2 * (table + vectors)) << "a BF16 weight of a product in FP8";
      // The table is looked up in BF16 and multiplied with in FP8.
      EXPECT_EQ(with("precision.head=fp8").cast, linear + table) << grid[0];
      EXPECT_EQ(with("precision.head=fp8").plain, 2 * (table + vectors)) << grid[0];
      EXPECT_EQ(with("backend.precision=bf16").cast, 0) << grid[0];
      EXPECT_EQ(with("backend.precision=bf16").plain, 2 * (linear + table + vectors)) << grid[0];
    }
}

TEST(Fp8Weights, OfAnUntiedHeadNeedNoPlainCopy) {
  const Strings untied = exact({"model.tie_embeddings=off"});
  Strings cast = untied;
  cast.push_back("precision.head=fp8");
  const WeightBytes plain_head = weight_bytes(programs(untied)), cast_head = weight_bytes(programs(cast));
  EXPECT_EQ(cast_head.cast - plain_head.cast, V * H);
  EXPECT_EQ(plain_head.plain - cast_head.plain, 2 * V * H);
}

// Buffers that the forward pass writes and the backward pass reads, with bytes an element.
std::set<std::string> saved(const StepProgram& program) {
  const auto touched = [&](const std::string& segment, bool written) {
    std::set<std::string> names;
    for (const Segment& candidate : program.segments)
      if (candidate.name == segment)
        for (const Operation& operation : candidate.operations)
          for (const Operand& operand : operation.operands)
            if (!operand.view.absent() && (written ? writes(operand.access) : reads(operand.access)))
              names.insert(
                  text(program.buffers[operand.view.buffer].name, ": ", size_of(operand.view.dtype)));
    return names;
  };
  const auto written = touched("forward", true), read = touched("first backward", false);
  std::set<std::string> both;
  std::set_intersection(written.begin(), written.end(), read.begin(), read.end(),
                        std::inserter(both, both.end()));
  return both;
}

TEST(Fp8Activations, AreSavedInOneByte) {
  for (const char* tp : {"grid.tp=1", "grid.tp=2"}) {
    const auto plain = saved(programs({tp, "backend.precision=bf16"}).training.program);
    const auto cast = saved(programs({tp}).training.program);
    for (const int layer : {0, 1}) {
      const auto name = [&](const char* tensor) { return text("layers.", layer, ".", tensor); };
      // What the weight gradients of fc1, fc2 and qkv read. (The core's output stays for its own backward.)
      for (const char* kept : {"norm1.output: 2", "norm2.output: 2", "mlp.gelu: 2"}) {
        EXPECT_TRUE(plain.count(name(kept))) << name(kept);
        EXPECT_FALSE(cast.count(name(kept))) << name(kept);
      }
      for (const char* kept : {"attention.qkv.input.e4m3: 1", "attention.out.input.e4m3: 1",
                               "mlp.fc1.input.e4m3: 1", "mlp.fc2.input.e4m3: 1"})
        EXPECT_TRUE(cast.count(name(kept))) << name(kept);
    }
  }
}

TEST(Fp8Activations, TakeTheBytesOfTheirElements) {
  for (const std::int64_t tp : {1, 2}) {
    const StepProgram program = programs(exact({text("grid.tp=", tp)})).training.program;
    const auto bytes = [&](const char* name) {
      return program.buffers.at(std::size_t(program.find_buffer(name))).bytes;
    };
    EXPECT_EQ(bytes("layers.1.attention.qkv.input.e4m3"), S / tp * H);
    EXPECT_EQ(bytes("layers.1.attention.out.input.e4m3"), S * H / tp);
    EXPECT_EQ(bytes("layers.1.mlp.fc2.input.e4m3"), S * 4 * H / tp);
    EXPECT_EQ(bytes("layers.1.mlp.fc2.grad_output.e5m2"), S / tp * H);
    EXPECT_EQ(bytes("layers.1.attention.qkv.grad_output.e5m2"), S * 3 * H / tp);
  }
}

TEST(Fp8Programs, AreSoundOnEveryGrid) {
  const std::vector<Strings> models{
      {},
      {"precision.head=fp8", "batch.micro=2"},
      {"model.family=llama", "model.kv_heads=2", "model.ffn=128", "precision.head=fp8"},
      {"precision.high_precision_first=1", "parallel.sequence_parallel=off"}};
  for (const char* recipe : {"fp8-delayed", "fp8-current"})
    for (const Strings& model : models)
      for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}, {4, 1}, {1, 4}}) {
        Strings overrides = model;
        for (const std::string& more :
             {text("backend.precision=", recipe), text("grid.dp=", dp), text("grid.tp=", tp),
              text("batch.global=", 4 * dp), std::string("model.sequence=64")})
          overrides.push_back(more);
        const Parameters all = small_model::fp8_parameters(overrides);
        const ProcessGrid grid = small_model::grid(all);
        const GridRoles roles = grid_roles(grid, [&](int rank) { return small_model::programs(all, rank); });
        const std::string where = text(recipe, ", ", dp, "x", tp, ", ", model.empty() ? "" : model[0]);
        EXPECT_EQ(roles.programs.size(), 1u) << where;
        EXPECT_EQ(roles.programs[0].calibration.has_value(), recipe == std::string("fp8-delayed")) << where;
        EXPECT_THAT(verify_roles(grid, roles).problems, IsEmpty()) << where;
      }
}

// Two of four TP ranks share a key and value head: its rows are parts of their own, and count twice.
TEST(Fp8Programs, SharedKeysHaveCountersOfTheirOwn) {
  const Strings llama{"model.family=llama", "model.kv_heads=2", "model.ffn=128", "grid.tp=4"};
  const QuantizationPlan plan = programs(llama).quantization;
  ASSERT_EQ(plan.counters.size(), plan.tensors.size() + 2);
  for (std::size_t k = plan.tensors.size(); k < plan.counters.size(); ++k) {
    EXPECT_EQ(plan.counters[k].copies, 2);
    EXPECT_TRUE(plan.tensors[plan.counters[k].tensor].name.ends_with("attention.qkv.weight"));
  }
}

TEST(Fp8Programs, CastEveryWeightOnceAStep) {  // A25
  for (const int micro_batches : {1, 4}) {
    const StepProgram program = programs({text("batch.global=", micro_batches)}).training.program;
    const auto casts = [&](const std::string& of) {
      return small_model::count(program, [&](const Operation& operation) {
        const auto cast = find_cast(operation);
        return cast && cast->tensor->ends_with(of);
      });
    };
    EXPECT_EQ(casts(".weight"), 4 * 2);
    EXPECT_EQ(casts(".input"), 4 * 2 * micro_batches);
    EXPECT_EQ(casts(".grad_output"), 4 * 2 * micro_batches);
    EXPECT_EQ(small_model::count(program,
                                 [](const Operation& operation) { return operation.op == OCT_UPDATE_SCALE; }),
              2);
  }
}

TEST(Fp8Programs, MakeNoCallInAGroupOfOne) {  // A16
  for (const char* recipe : {"fp8-delayed", "fp8-current"})
    for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
      const RankPrograms built =
          programs({text("backend.precision=", recipe), text("grid.dp=", dp), text("grid.tp=", tp)});
      built.for_each([&, dp = dp, tp = tp](const char* which, const PlannedProgram& planned) {
        const int calls = small_model::count(planned.program, [](const Operation& operation) {
          return is_communication(operation.op) &&
                 (operation.peers.purpose == "amax" || operation.peers.purpose == "counters");
        });
        EXPECT_EQ(calls > 0, dp * tp > 1 && (which != std::string("validation") ||
                                             (recipe == std::string("fp8-current") && tp > 1)))
            << which << " " << recipe << " " << dp << "x" << tp;
      });
    }
}

}  // namespace
}  // namespace octachoron
