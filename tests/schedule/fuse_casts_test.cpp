// Which casts are fused into the operations before them, and what is then no longer written.
#include "core/schedule/fuse_casts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/text.h"
#include "core/engine/backend.h"
#include "tests/schedule/small_model.h"

namespace octachoron {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Strings = std::vector<std::string>;
using Names = std::set<std::string>;

RankPrograms programs(const Strings& overrides, Casts casts = Casts::fused) {
  const Parameters all = small_model::fp8_parameters(overrides);
  DryBackend backend(all);
  return build_rank_programs(all, {small_model::grid(all), &backend.device(), &backend.recipe()}, 0, casts);
}

// Labels of the casts that other operations carry.
Names fused(const StepProgram& program) {
  Names names;
  for (const Segment& segment : program.segments)
    for (const Operation& operation : segment.operations)
      if (!operation.cast.empty()) names.insert(operation.cast);
  return names;
}

// Labels of all casts.
std::multiset<std::string> casts(const StepProgram& program) {
  std::multiset<std::string> names;
  for (const Segment& segment : program.segments)
    for (const Operation& operation : segment.operations)
      if (const auto cast = find_cast(operation)) names.insert(*cast->tensor);
  return names;
}

bool touched(const StepProgram& program, const std::string& buffer) {
  const int number = program.find_buffer(buffer);
  bool found = false;
  for (const Segment& segment : program.segments)
    for (const Operation& operation : segment.operations)
      for_each_access(operation, [&](const View& view, Access) { found |= view.buffer == number; });
  return found;
}

TEST(FuseCasts, TakesWhatIsMadeRightBefore) {
  const Names of_gpt2 = fused(programs({"model.layers=1"}).training.program);
  EXPECT_EQ(of_gpt2, (Names{"layers.0.attention.qkv.input", "layers.0.mlp.fc1.input",
                            "layers.0.mlp.fc2.input", "layers.0.mlp.fc1.grad_output",
                            "layers.0.attention.out.grad_output", "layers.0.mlp.fc2.grad_output"}));
  const Strings llama{"model.family=llama", "model.ffn=128", "model.layers=1"};
  const Names of_llama = fused(programs(llama).training.program);
  EXPECT_EQ(of_llama, (Names{"layers.0.attention.qkv.input", "layers.0.mlp.gate_up.input",
                             "layers.0.mlp.down.input", "layers.0.mlp.gate_up.grad_output",
                             "layers.0.attention.out.grad_output", "layers.0.mlp.down.grad_output"}));
}

TEST(FuseCasts, LosesNone) {
  for (const char* family : {"gpt2", "llama"})
    for (const char* tp : {"grid.tp=1", "grid.tp=4"}) {
      const Strings all{text("model.family=", family), "model.ffn=128", tp, "batch.global=8"};
      const RankPrograms one = programs(all), other = programs(all, Casts::apart);
      EXPECT_EQ(casts(one.training.program), casts(other.training.program));
      EXPECT_EQ(casts(one.validation.program), casts(other.validation.program));
      EXPECT_EQ(casts(one.calibration->program), casts(other.calibration->program));
      EXPECT_THAT(fused(other.training.program), IsEmpty());
      EXPECT_FALSE(fused(one.validation.program).empty());
    }
}

// A scale that depends on the tensor itself is known only when all of it is there.
TEST(FuseCasts, LeavesWhatIsScaledByItself) {
  EXPECT_THAT(fused(programs({"backend.precision=fp8-current"}).training.program), IsEmpty());
  EXPECT_THAT(fused(programs({}).calibration->program), IsEmpty());
  EXPECT_THAT(fused(programs({"backend.precision=bf16"}).training.program), IsEmpty());
}

TEST(FuseCasts, DropsWhatNobodyElseReads) {
  const StepProgram gpt2 = programs({"model.layers=1"}).training.program;
  for (const char* name : {"layers.0.norm1.output", "layers.0.norm2.output", "layers.0.mlp.gelu"})
    EXPECT_FALSE(touched(gpt2, name)) << name;
  EXPECT_TRUE(touched(gpt2, "layers.0.mlp.dhidden")) << "the gradient of the bias is its sum";
  EXPECT_TRUE(touched(gpt2, "norm.output")) << "the head reads it";
  const Strings llama{"model.family=llama", "model.ffn=128", "model.layers=1"};
  EXPECT_FALSE(touched(programs(llama).training.program, "layers.0.mlp.dhidden"));
}

// Of the two results of the same operation the program may want both.
TEST(FuseCasts, KeepsWhatAnotherReads) {
  const Strings high{"model.layers=1", "precision.high_precision_first=0", "precision.exclude=*.fc2"};
  const StepProgram program = programs(high).training.program;
  EXPECT_TRUE(touched(program, "layers.0.mlp.gelu")) << "fc2 is not in FP8";
  int kept = 0;
  for (const Segment& segment : program.segments)
    for (const Operation& operation : segment.operations)
      if (const auto cast = find_cast(operation); cast && operation.op == OCT_NORM_BACKWARD) {
        EXPECT_FALSE(cast->x.absent()) << "the residual stream";
        ++kept;
      }
  EXPECT_EQ(kept, 2) << "in the first backward pass and in the later ones";
}

// By hand: an operation of another lane, of another part of the tensor, or one in between.
TEST(FuseCasts, WantsTheWholeAndNothingBetween) {
  const Parameters all = small_model::fp8_parameters({});
  DryBackend backend(all);
  const auto merged = [&](const std::function<void(StepProgram&)>& change) {
    ProgramBuilder builder({small_model::grid(all), &backend.device(), &backend.recipe()});
    builder.segment("one");
    const auto matrix = [&](const char* name, DType type, std::int64_t rows, std::int64_t columns) {
      return builder.matrix(name, type, rows, columns, MemoryClass::activation);
    };
    const View x = matrix("x", OCT_BF16, 8, 16), y = matrix("y", OCT_BF16, 8, 16),
               q = matrix("q", OCT_E4M3, 8, 16), scale = matrix("scale", OCT_F32, 1, 1);
    builder.lane("compute"), builder.lane("tp");
    builder.emit({.op = OCT_GELU, .label = "gelu", .operands = {{x}, {y, Access::write}}});
    builder.emit(
        {.op = OCT_QUANTIZE, .label = "cast", .operands = {{y}, {scale}, {q, Access::write}, {}, {}, {}}});
    int count = 0;
    builder.finish([&](StepProgram& program) {
      change(program);
      count = fuse_casts(builder, program);
    });
    return count;
  };
  EXPECT_EQ(merged([](StepProgram&) {}), 1);
  EXPECT_EQ(merged([](StepProgram& program) { program.segments[0].operations[1].lane = 1; }), 0);
  EXPECT_EQ(merged([](StepProgram& program) {
              Operation& cast = program.segments[0].operations[1];
              for (const int k : {0, 2})
                cast.operands[std::size_t(k)].view = cast.operands[std::size_t(k)].view.row_range(4, 4);
            }),
            0);
  EXPECT_EQ(merged([](StepProgram& program) {
              auto& operations = program.segments[0].operations;
              operations.insert(operations.begin() + 1, operations[0]);
              operations[1].op = OCT_COPY;
            }),
            0);
  EXPECT_EQ(merged([](StepProgram& program) { program.segments[0].operations[1].i = {1, 0, 0, 128}; }), 0);
}

}  // namespace
}  // namespace octachoron
