// Planned memory of the programs that the product builds: near its lower bound, and split as the grid says.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "core/base/text.h"
#include "tests/schedule/small_model.h"

namespace octachoron {
namespace {

using Strings = std::vector<std::string>;

double ratio(const MemoryPlan& plan) {
  return double(plan.arena_bytes) / double(plan.live_bytes);
}

TEST(Memory, ArenasAreNearTheLowerBound) {
  const Strings demo{"model.layers=4",  "model.hidden=128", "model.sequence=128",
                     "model.vocab=256", "batch.micro=8",    "batch.global=32"};
  const Strings gpt2{"model.layers=12",     "model.hidden=768",  "model.heads=12",
                     "model.sequence=1024", "model.vocab=50257", "batch.global=8"};
  const Strings wide{"model.layers=4", "model.hidden=1024", "model.sequence=256", "model.vocab=1000"};
  const Strings long_sequence{"model.layers=3", "model.sequence=2048", "model.vocab=256"};
  for (const Strings& shape : {demo, gpt2, wide, long_sequence})
    for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}, {4, 1}, {1, 4}})
      for (const char* sequence_parallel : {"on", "off"}) {
        Strings overrides = shape;
        overrides.push_back(text("grid.dp=", dp));
        overrides.push_back(text("grid.tp=", tp));
        overrides.push_back(text("parallel.sequence_parallel=", sequence_parallel));
        const RankPrograms programs = small_model::programs(small_model::parameters(overrides));
        const std::string where = text(shape[1], " on ", dp, "x", tp, ", ", sequence_parallel);
        EXPECT_LE(ratio(programs.training.plan), 1.1) << where;
        // In the same arena, and so small that what runs beside the gathers of weights is a larger share of it.
        EXPECT_LE(ratio(programs.validation.plan), 1.15) << where;
        EXPECT_LE(programs.validation.plan.arena_bytes, programs.training.plan.arena_bytes) << where;
      }
}

// A model without padding: sizes are multiples of 64 elements on each of these grids.
struct Exact {
  std::int64_t layers = 2, hidden = 128, heads = 4, sequence = 64, vocab = 256;
  std::int64_t dp = 1, tp = 1;
  bool sequence_parallel = true;

  Strings overrides() const {
    return {"model.hidden=128",
            "model.sequence=64",
            "model.vocab=256",
            "batch.global=2",
            text("grid.dp=", dp),
            text("grid.tp=", tp),
            text("parallel.sequence_parallel=", sequence_parallel ? "on" : "off")};
  }
  // Elements of the weights of a rank: token table, positions, and per layer qkv, out, fc1, fc2 with biases
  // and two norms; the final norm.
  std::int64_t weights() const {
    const std::int64_t h = hidden;
    const std::int64_t split =
        layers * (3 * h * h + h * h + 4 * h * h + 4 * h * h + 3 * h + 4 * h) + vocab * h;
    const std::int64_t whole = layers * (2 * h + h + 2 * h + h) + 2 * h + sequence * h;
    return split / tp + whole;
  }
  // Bytes that wait for the backward pass of one sequence.
  std::int64_t saved() const {
    const std::int64_t t = sequence, local = sequence_parallel ? t / tp : t, h = hidden;
    const std::int64_t residual = local * h;          // input, middle and output of a block
    const std::int64_t norm = local * h + 2 * local;  // output and statistics
    const std::int64_t attention = (t * 3 * h + t * h + t * heads) / tp;  // qkv, core, log-sum-exp
    const std::int64_t mlp = (t * 4 * h + t * 4 * h) / tp;                // before and after the GELU
    const std::int64_t block = 2 * norm + attention + mlp + 2 * residual;
    const std::int64_t head = norm + t * vocab / tp;        // logits become their gradient
    return 4 * (residual + layers * block + head) + 4 * t;  // tokens
  }
};

std::int64_t declared(const StepProgram& program, MemoryClass memory) {
  std::int64_t bytes = 0;
  for (int b = 0; b < int(program.buffers.size()); ++b)
    if (program.buffers[b].memory == memory) bytes += program.buffers[b].bytes * program.instances(b);
  return bytes;
}

// Arena bytes of step or slot buffers of these classes that the backward pass finds and did not write.
std::int64_t saved_bytes(StepProgram& program, std::set<MemoryClass> classes) {
  const auto touched = [&](const char* name) {
    std::set<int> buffers;
    for (const Operation& operation : small_model::segment(program, name).operations)
      for_each_access(operation, [&](const View& view, Access) { buffers.insert(view.buffer); });
    return buffers;
  };
  const std::set<int> forward = touched("forward"), backward = touched("first backward");
  std::int64_t bytes = 0;
  for (const int buffer : forward)
    if (backward.count(buffer) && classes.count(program.buffers[buffer].memory))
      bytes += program.buffers[buffer].bytes;
  return bytes;
}

TEST(Memory, BytesOfARankAreThoseOfItsShare) {
  for (const auto& [dp, tp] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {2, 1}, {1, 2}, {2, 2}})
    for (const bool sequence_parallel : {true, false}) {
      const Exact exact{.dp = dp, .tp = tp, .sequence_parallel = sequence_parallel};
      PlannedProgram planned = small_model::programs(small_model::parameters(exact.overrides())).training;
      StepProgram& program = planned.program;
      const std::string where = text(dp, "x", tp, sequence_parallel ? ", sp" : "");
      const std::int64_t weights = exact.weights() * 4;
      EXPECT_EQ(planned.plan.by_class[int(MemoryClass::master)], weights / dp) << where;
      EXPECT_EQ(planned.plan.by_class[int(MemoryClass::moment)], 2 * weights / dp) << where;
      // On one data-parallel rank the masters are the weights, and the gradient is its own shard.
      EXPECT_EQ(declared(program, MemoryClass::weight), dp > 1 ? weights : 0) << where;
      EXPECT_EQ(declared(program, MemoryClass::gradient), dp > 1 ? weights + weights / dp : weights) << where;
      EXPECT_EQ(saved_bytes(program, {MemoryClass::activation}), exact.saved()) << where;
      // What was gathered is gathered again: it does not wait.
      EXPECT_EQ(saved_bytes(program, {MemoryClass::communication}), 0) << where;
    }
}

TEST(Memory, ActivationsShrinkWithSequenceParallelism) {
  const auto activations = [](const char* tp, const char* sequence_parallel) {
    const Parameters parameters = small_model::parameters(
        {"model.layers=8", "model.hidden=128", "model.sequence=256", "model.vocab=256", text("grid.tp=", tp),
         text("parallel.sequence_parallel=", sequence_parallel)});
    const MemoryPlan plan = small_model::programs(parameters).training.plan;
    return plan.by_class[int(MemoryClass::activation)] + plan.by_class[int(MemoryClass::communication)];
  };
  const std::int64_t one = activations("1", "on"), four = activations("4", "on"),
                     replicated = activations("4", "off");
  EXPECT_LT(double(four), 0.3 * double(one));
  EXPECT_GT(double(replicated), 1.2 * double(four));
}

}  // namespace
}  // namespace octachoron
