// Faults planted in the program of one variant: compare names each, with layer and operand.
#include <cstring>

#include "core/model/parameter_buffers.h"
#include "core/model/quantizer.h"
#include "tests/compare/fixture.h"

namespace octachoron::compare_test {
namespace {

using testing::HasSubstr;

const Strings kDelayed = {"backend.precision=fp8-delayed"};

Strings with(Strings overrides, const Strings& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

void expect_named(const Comparison& found, const std::string& kind, const std::string& module,
                  const std::string& operand) {
  const auto& findings = found.variants[0].deviations.findings;
  ASSERT_FALSE(findings.empty());
  EXPECT_TRUE(findings[0].fault);
  EXPECT_EQ(findings[0].kind, kind) << findings[0].evidence;
  EXPECT_EQ(findings[0].module, module) << findings[0].evidence;
  EXPECT_EQ(findings[0].operand, operand) << findings[0].evidence;
  EXPECT_THAT(comparison_text(found), HasSubstr("FAULT in " + module));
}

// The scale of another tensor in place of that of `tensor`.
View other_scale(const RankPrograms& programs, const View& scale, const std::string& tensor) {
  const auto& tensors = programs.quantization.tensors;
  for (int row = 0; row < int(tensors.size()); ++row) {
    if (tensors[row].name != tensor) continue;
    const int other = row > 0 ? row - 1 : row + 1;
    View view = scale;
    view.offset += (other - row) *
                   (programs.training.program.buffers[scale.buffer].bytes / std::int64_t(tensors.size()));
    return view;
  }
  fail(ExitStatus::internal, "there is no tensor ", tensor);
}

TEST_F(CompareTest, NamesACastWithAWrongScale) {
  const std::string tensor = "layers.1.mlp.fc1.input";
  const Plant plant{[&](RankPrograms& programs) {
                      change_operations(programs, [&](Operation& operation) {
                        if (operation.op != OCT_QUANTIZE || operation.label != tensor) return;
                        View& scale = operation.operands[1].view;
                        scale = other_scale(programs, scale, tensor);
                      });
                    },
                    {}};
  const Comparison found =
      compare({variant("plain", {"backend.precision=bf16"}), variant("bad", kDelayed)}, 2, {{"bad", plant}});
  if (!is_first()) return;
  expect_named(found, "scale", "layers.1.mlp.fc1", "input");
  ASSERT_TRUE(found.variants[0].trial.has_value());
  EXPECT_EQ(found.variants[0].trial->module, "layers.1.mlp.fc1");
  EXPECT_TRUE(found.variants[0].trial->closes);
}

TEST_F(CompareTest, NamesAProductWithAWrongScale) {
  const Plant plant{[&](RankPrograms& programs) {
                      change_operations(programs, [&](Operation& operation) {
                        if (operation.op != OCT_GEMM || operation.label != "layers.0.attention.out.fprop" ||
                            operation.operands[3].view.absent())
                          return;
                        View& scale = operation.operands[3].view;
                        scale = other_scale(programs, scale, "layers.0.attention.out.weight");
                      });
                    },
                    {}};
  const Comparison found =
      compare({variant("plain", {"backend.precision=bf16"}), variant("bad", kDelayed)}, 2, {{"bad", plant}});
  if (!is_first()) return;
  expect_named(found, "product", "layers.0.attention.out", "weight");
  EXPECT_TRUE(found.variants[0].trial->closes);
}

// Without sequence parallelism the sum over TP is in place, so nothing else misses it.
TEST_F(CompareTest, NamesAMissingReductionOfActivations) {
  const Plant plant{[](RankPrograms& programs) {
                      delete_operations(programs, [](const Operation& operation) {
                        return operation.op == OCT_ALL_REDUCE &&
                               operation.label == "layers.1.attention.out.output";
                      });
                    },
                    {}};
  const Comparison found =
      compare({variant("one", {}), variant("bad", {"grid.tp=2", "parallel.sequence_parallel=off"})}, 1,
              {{"bad", plant}});
  if (!is_first()) return;
  const VariantReport& report = found.variants[0];
  ASSERT_TRUE(report.rounding.has_value());
  EXPECT_FALSE(report.rounding->is_rounding);
  EXPECT_EQ(report.rounding->where, "layers.1.attention");
  EXPECT_THAT(comparison_text(found), HasSubstr("a FAULT, first in layers.1.attention"));
}

TEST_F(CompareTest, NamesAMissingReductionOfGradients) {
  const Plant plant{[](RankPrograms& programs) {
                      delete_operations(programs, [](const Operation& operation) {
                        return operation.op == OCT_ALL_REDUCE && operation.label.ends_with(".gradient.tp");
                      });
                    },
                    {}};
  const Comparison found = compare({variant("one", {}), variant("bad", {"grid.tp=2"})}, 1, {{"bad", plant}});
  if (!is_first()) return;
  ASSERT_TRUE(found.variants[0].rounding.has_value());
  EXPECT_FALSE(found.variants[0].rounding->is_rounding);
  EXPECT_THAT(found.variants[0].rounding->where,
              testing::AnyOf(HasSubstr("norm"), HasSubstr("bias"), HasSubstr("position")));
}

TEST_F(CompareTest, NamesAMissingReductionOfAmaxes) {
  const Plant plant{[](RankPrograms& programs) {
                      if (programs.quantization.empty()) return;  // run again in full precision
                      delete_operations(programs, [](const Operation& operation) {
                        return operation.op == OCT_ALL_REDUCE && operation.label == "precision.amax";
                      });
                    },
                    {}};
  const Comparison found =
      compare({variant("one", kDelayed), variant("bad", with(kDelayed, {"grid.dp=2"}))}, 2, {{"bad", plant}});
  if (!is_first()) return;
  const auto& findings = found.variants[0].deviations.findings;
  const auto names = [&](const std::string& kind) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& finding) { return finding.kind == kind; });
  };
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].kind, "amax") << findings[0].evidence;
  EXPECT_GT(names("ranks"), 8);
}

// The weight is cast from masters as they were a step ago. At step 1 nothing is stale yet.
TEST_F(CompareTest, NamesAStaleWeightCast) {
  const std::string name = "layers.1.mlp.fc2.weight", old = "old masters";
  const auto plant_in = [&](PlannedProgram& planned, bool is_training) {
    StepProgram& program = planned.program;
    const int buffer = int(program.buffers.size());
    Operation keep{.op = OCT_COPY, .label = old};
    std::int64_t bytes = 0;
    for (Segment& segment : program.segments)
      for (Operation& operation : segment.operations) {
        if (operation.op != OCT_QUANTIZE || operation.label != name) continue;
        View& masters = operation.operands[0].view;
        bytes = program.buffers[masters.buffer].bytes;
        keep.lane = operation.lane;
        keep.operands = {{masters}, {masters, Access::write}};
        keep.operands[1].view.buffer = buffer;
        if (is_training) masters.buffer = buffer;
      }
    if (bytes == 0) return;  // run again without this module
    program.buffers.push_back({old, bytes, Scope::step, MemoryClass::master, true, false});
    for (Segment& segment : program.segments)
      if (is_training && segment.name == "agree") segment.operations.push_back(keep);
    finish(planned);
  };
  const Plant plant{[&](RankPrograms& programs) {
                      plant_in(programs.training, true);
                      plant_in(programs.validation, false);
                      plant_in(*programs.calibration, false);
                    },
                    [&](TrainingSession& session) {
                      const RankPrograms& programs = session.programs();
                      if (!session.training().find(old)) return;
                      const int tensor = programs.set.find(name);
                      const int bucket = places(programs.set)[std::size_t(tensor)].bucket;
                      const View masters =
                          session.training().find(ParameterBuffers::master_name(bucket)).value();
                      const View copy = session.training().find(old).value();
                      std::memcpy(session.training().address(copy), session.training().address(masters),
                                  std::size_t(masters.bytes()));
                    }};
  const Comparison found =
      compare({variant("plain", {"backend.precision=bf16"}), variant("bad", kDelayed)}, 3, {{"bad", plant}});
  if (!is_first()) return;
  expect_named(found, "stale weight", "layers.1.mlp.fc2", "weight");
  EXPECT_THAT(found.variants[0].deviations.findings[0].evidence, HasSubstr("at step 3"));
  EXPECT_EQ(found.variants[0].trial->module, "layers.1.mlp.fc2");
}

// Each micro-batch begins the maximum anew: the last one wins.
TEST_F(CompareTest, NamesAHistoryOverwrittenPerMicroBatch) {
  const Plant plant{[](RankPrograms& programs) {
                      StepProgram& program = programs.training.program;
                      std::vector<Operation> clear;
                      for (const Segment& segment : program.segments)
                        for (const Operation& operation : segment.operations)
                          if (operation.op == OCT_FILL && operation.label == "precision.amax")
                            clear.push_back(operation);
                      ensure(clear.size() == 1, "one operation clears the amaxes");
                      for (Segment& segment : program.segments)
                        if (segment.name == "load") segment.operations.push_back(clear.front());
                      finish(programs.training);
                    },
                    {}};
  const Comparison found =
      compare({variant("plain", {"backend.precision=bf16"}), variant("bad", kDelayed)}, 2, {{"bad", plant}});
  if (!is_first()) return;
  const auto& findings = found.variants[0].deviations.findings;
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].kind, "amax");
  EXPECT_TRUE(findings[0].fault);
  EXPECT_THAT(findings[0].evidence, HasSubstr("overwritten by a micro-batch"));
  int tensors = 0;
  for (const Finding& finding : findings) tensors += finding.kind == "amax" && finding.operand != "weight";
  EXPECT_GT(tensors, 8);
}

}  // namespace
}  // namespace octachoron::compare_test
