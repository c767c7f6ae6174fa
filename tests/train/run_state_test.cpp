// What is said of parameters that changed between a checkpoint and now.
#include "core/train/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/parameter_file.h"
#include "core/config/validate.h"

namespace octachoron {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Parameters parameters(const std::vector<std::string>& overrides = {}) {
  ParsedParameters parsed = parse_parameter_text(
      "[run]\nsteps = 10\n[model]\nlayers = 2\nhidden = 32\nheads = 4\nsequence = 16\nvocab = 50\n"
      "[batch]\nglobal = 4\n[data]\ntrain = text\n",
      "small.ini", overrides);
  finalize(parsed, 0);
  return parsed.values;
}

TEST(ParameterDifferences, EqualParametersHaveNone) {
  EXPECT_THAT(parameter_differences(format_parameters(parameters()), parameters()), IsEmpty());
}

TEST(ParameterDifferences, NameTheKeyAndBothValues) {
  const Parameters now = parameters({"optimizer.learning_rate=0.001", "batch.global=8", "run.seed=3"});
  EXPECT_THAT(parameter_differences(format_parameters(parameters({"optimizer.learning_rate=0.002"})), now),
              testing::UnorderedElementsAre("batch.global: 4 -> 8", "run.seed: 1 -> 3",
                                            "optimizer.learning_rate: 0.002 -> 0.001",
                                            "optimizer.min_learning_rate: 2e-4 -> 1e-4"));
}

TEST(ParameterDifferences, AKeyThatTheCheckpointDoesNotKnowIsSaid) {
  std::string stored = format_parameters(parameters());
  const std::size_t at = stored.find("max_skipped");
  ASSERT_NE(at, std::string::npos);
  stored.erase(at, stored.find('\n', at) + 1 - at);
  EXPECT_THAT(parameter_differences(stored, parameters()),
              ElementsAre("run.max_skipped: not in the checkpoint -> 5"));
}

TEST(RunState, SkippedStepsMakeNoUpdate) {
  EXPECT_EQ((RunState{}.next_update()), 1);
  EXPECT_EQ((RunState{.step = 9, .samples = 90, .skipped = 3}.next_update()), 7);
}

}  // namespace
}  // namespace octachoron
