// Findings from observations made by hand.
#include "core/compare/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/compare/probe.h"

namespace octachoron {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Assembled row(std::vector<double> values) {
  const auto columns = std::int64_t(values.size());
  return {1, columns, std::move(values)};
}

CastObservation cast(const std::string& module, const std::string& operand) {
  CastObservation cast{.tensor = module + "." + operand,
                       .module = module,
                       .operand = operand,
                       .format = "e4m3",
                       .format_max = 448};
  cast.elements = 1000, cast.amax_handed = cast.recorded.amax = 2, cast.scale = cast.scale_asked = 224;
  cast.error = 0.02;
  return cast;
}

Observation observation() {
  Observation seen;
  seen.is_full_precision = true;
  seen.loss = {4, 3};
  seen.gradients = {{"layers.0.mlp.fc1.weight", row({1, 2})},
                    {"layers.0.attention.qkv.bias", row({3, 0, 4})},
                    {"layers.1.mlp.fc1.weight", row({2, 2})}};
  seen.forward = {
      {"embedding", row({1, 1})}, {"layers.0.attention", row({1, 2})}, {"layers.0.mlp", row({3, 4})}};
  StepObservation step{.step = 1};
  step.casts = {cast("layers.0.mlp.fc1", "input"), cast("layers.0.mlp.fc1", "weight"),
                cast("layers.1.mlp.fc1", "input")};
  step.casts[1].is_weight = true;
  step.weights = {{"layers.0.mlp.fc1", 100, 0, 0}};
  seen.steps = {step};
  return seen;
}

TEST(Deviation, EqualIsZero) {
  const Deviations none = compare_observations(observation(), observation(), {1, 2});
  EXPECT_EQ(none.total.loss, 0);
  EXPECT_EQ(none.total.gradient, 0);
  EXPECT_THAT(none.findings, IsEmpty());
  EXPECT_TRUE(judge_rounding(observation(), observation(), {1, 2}).is_rounding);
}

TEST(Deviation, IsRelativeToTheReference) {
  Observation other = observation();
  other.gradients["layers.1.mlp.fc1.weight"] = row({2, 2.5});
  other.loss[1] = 3.3;
  const Deviations seen = compare_observations(other, observation(), {1, 2});
  EXPECT_NEAR(seen.total.loss, 0.1, 1e-15);
  EXPECT_NEAR(seen.total.gradient, 0.5 / std::sqrt(5 + 25 + 8), 1e-15);
  EXPECT_EQ(seen.gradients.front().tensor, "layers.1.mlp.fc1.weight");
  EXPECT_NEAR(seen.gradients.front().relative, 0.5 / std::sqrt(8.0), 1e-15);
}

TEST(Deviation, KeyRowsHaveAMeasureOfTheirOwn) {
  Observation other = observation();
  other.gradients["layers.0.attention.qkv.bias"] = row({3, 1e-6, 4});
  const auto errors = gradient_errors(other.gradients, observation().gradients, {1, 2});
  EXPECT_EQ(errors[0].tensor, "layers.0.attention.qkv.bias");
  EXPECT_EQ(errors[0].relative, 0);
  EXPECT_NEAR(errors[0].zero, 1e-6 / std::sqrt(25 + 5), 1e-12);
  EXPECT_FALSE(judge_rounding(other, observation(), {1, 2}).is_rounding);
  const ModelParameters gpt2{.heads = 4, .kv_heads = 2, .head_dim = 8};
  EXPECT_EQ(zero_gradient_rows(gpt2).begin, 32);
  EXPECT_EQ(zero_gradient_rows(gpt2).end, 48);
}

TEST(Deviation, RoundingEndsAtTheBoundsOfTheContract) {
  const auto with_gradient = [](double factor) {
    Observation other = observation();
    for (double& value : other.gradients["layers.1.mlp.fc1.weight"].values) value *= factor;
    return judge_rounding(other, observation(), {1, 2});
  };
  EXPECT_TRUE(with_gradient(1 + 4e-6).is_rounding);
  EXPECT_FALSE(with_gradient(1 + 6e-6).is_rounding);
  EXPECT_EQ(with_gradient(1 + 6e-6).where, "layers.1.mlp.fc1.weight");
  Observation nan = observation();
  nan.gradients["layers.1.mlp.fc1.weight"].values[0] = NAN;
  EXPECT_FALSE(judge_rounding(nan, observation(), {1, 2}).is_rounding);
  Observation forward = observation();
  forward.forward[1].second.values[0] += 1, forward.forward[2].second.values[0] += 1;
  EXPECT_EQ(judge_rounding(forward, observation(), {1, 2}).where, "layers.0.attention");
  EXPECT_EQ(forward_errors(forward, observation())[2].added, 0);
}

using Change = std::function<void(StepObservation&)>;
struct FaultCase {
  const char* kind;
  const char* module;
  const char* operand;
  Change change;
};

TEST(Findings, NameEachFault) {
  const std::vector<FaultCase> cases = {
      {"stale weight", "layers.0.mlp.fc1", "weight",
       [](StepObservation& step) { step.weights[0].wrong = 3; }},
      {"scale", "layers.0.mlp.fc1", "input", [](StepObservation& step) { step.casts[0].scale_cast = 100; }},
      {"scale", "layers.1.mlp.fc1", "input", [](StepObservation& step) { step.casts[2].scale_asked = 100; }},
      {"product", "layers.0.mlp.fc1", "weight",
       [](StepObservation& step) { step.casts[1].product = "x.fprop"; }},
      {"amax", "layers.1.mlp.fc1", "input", [](StepObservation& step) { step.casts[2].recorded.amax = 1; }},
      {"amax", "layers.0.mlp.fc1", "weight", [](StepObservation& step) { step.casts[1].recorded.amax = 1; }},
      {"history", "layers.0.mlp.fc1", "input",
       [](StepObservation& step) { step.casts[0].rolled_once = false; }},
      {"ranks", "layers.0.mlp.fc1", "input",
       [](StepObservation& step) { step.casts[0].same_on_all_ranks = false; }},
      {"cast", "layers.0.mlp.fc1", "input", [](StepObservation& step) { step.casts[0].wrong = 1; }},
  };
  EXPECT_THAT(faults_of(observation()), IsEmpty());
  for (const FaultCase& each : cases) {
    Observation seen = observation();
    each.change(seen.steps[0]);
    const auto faults = faults_of(seen);
    ASSERT_EQ(faults.size(), 1u) << each.kind;
    EXPECT_EQ(faults[0].kind, each.kind);
    EXPECT_EQ(faults[0].module, each.module);
    EXPECT_EQ(faults[0].operand, each.operand);
    EXPECT_TRUE(faults[0].fault);
  }
}

TEST(Findings, AnUnknownWeightHistoryIsNoFault) {
  Observation seen = observation();
  seen.steps[0].casts[1].recorded.amax = 0;  // a recipe whose history of weights was just made
  EXPECT_THAT(faults_of(seen), IsEmpty());
}

TEST(Findings, WeighWhatIsOutOfTheOrdinary) {
  struct Case {
    const char* kind;
    Change change;
  };
  const std::vector<Case> cases = {
      {"saturation", [](StepObservation& step) { step.casts[2].recorded.saturated = 50; }},
      {"flush", [](StepObservation& step) { step.casts[2].recorded.flushed = 300; }},
      {"nonfinite", [](StepObservation& step) { step.casts[2].recorded.nonfinite = 1; }},
      {"range", [](StepObservation& step) { step.casts[2].scale = step.casts[2].scale_asked = 1; }},
  };
  for (const Case& each : cases) {
    Observation seen = observation();
    each.change(seen.steps[0]);
    const Deviations deviations = compare_observations(seen, observation(), {});
    ASSERT_EQ(deviations.findings.size(), 1u) << each.kind;
    EXPECT_EQ(deviations.findings[0].kind, each.kind);
    EXPECT_EQ(deviations.findings[0].module, "layers.1.mlp.fc1");
    EXPECT_FALSE(deviations.findings[0].fault);
  }
}

TEST(Findings, ForwardErrorNamesTheOperandThatLosesMost) {
  Observation seen = observation();
  seen.forward[2].second.values[0] += 1;
  seen.steps[0].casts[0].error = 0.5;
  const Deviations deviations = compare_observations(seen, observation(), {});
  ASSERT_FALSE(deviations.findings.empty());
  EXPECT_EQ(deviations.findings[0].kind, "forward");
  EXPECT_EQ(deviations.findings[0].module, "layers.0.mlp.fc1");
  EXPECT_EQ(deviations.findings[0].operand, "input");
  EXPECT_THAT(deviations.findings[0].evidence, HasSubstr("layers.0.mlp"));
}

TEST(Probe, CastsAsDevicesDo) {
  EXPECT_EQ(cast_of(300, OCT_E4M3, 448.0f / 240), 448);  // saturates
  EXPECT_EQ(cast_of(120, OCT_E4M3, 448.0f / 240), 224);
  EXPECT_EQ(cast_of(1.00390625, OCT_BF16, 1), 1);  // halfway: to even
  EXPECT_EQ(cast_of(1.01171875, OCT_BF16, 1), 1.015625);
  EXPECT_EQ(cast_of(0.1, OCT_F32, 1), double(0.1f));
  EXPECT_EQ(cast_of(0.1, OCT_F64, 1), 0.1);
}

TEST(Probe, AsksForTheScaleOfTheRule) {
  oct_quant_spec spec{};
  spec.format = OCT_E4M3, spec.amax_algorithm = OCT_AMAX_MAX;
  const std::vector<float> history = {0, 2, 4, 1};
  EXPECT_EQ(scale_asked(spec, history), 112);
  spec.amax_algorithm = OCT_AMAX_MOST_RECENT;
  EXPECT_EQ(scale_asked(spec, history), 224);
  spec.amax_algorithm = OCT_AMAX_FROZEN;
  EXPECT_EQ(scale_asked(spec, history), 0);
  spec.amax_algorithm = OCT_AMAX_MAX;
  EXPECT_EQ(scale_asked(spec, std::vector<float>{0, 0}), 0);
}

}  // namespace
}  // namespace octachoron
