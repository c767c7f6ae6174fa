// compare on real runs.
#include "core/compare/observe.h"
#include "core/parallel/first_ranks.h"
#include "tests/compare/fixture.h"

namespace octachoron::compare_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST_F(CompareTest, EqualVariantsAreEqualToTheBit) {
  for (const char* precision : {"fp32", "bf16", "fp8-delayed", "fp8-current"}) {
    const Strings with = {text("backend.precision=", precision), "grid.tp=2"};
    const Comparison found = compare({variant("one", with), variant("same", with)}, 3);
    if (!is_first()) continue;
    const VariantReport& report = found.variants[0];
    EXPECT_EQ(report.deviations.total.loss, 0) << precision;
    EXPECT_EQ(report.deviations.total.gradient, 0) << precision;
    EXPECT_EQ(report.seen.digests, found.reference.digests) << precision;
    EXPECT_THAT(report.seen.digests, Not(IsEmpty()));
    EXPECT_THAT(faults_of(report.seen), IsEmpty()) << precision << ": " << faults_of(report.seen)[0].evidence;
    EXPECT_EQ(report.seen.loss.size(), 3u);
    EXPECT_LT(report.seen.loss[2], report.seen.loss[0]);
    EXPECT_EQ(report.seen.forward.size(), 5u);
    EXPECT_EQ(report.seen.steps.size(), 2u);
  }
}

TEST_F(CompareTest, AnotherGridInFp32IsRounding) {
  const Comparison found =
      compare({variant("one", {}), variant("tp", {"grid.tp=2"}),
               variant("all", {"grid.dp=2", "grid.tp=2", "parallel.sequence_parallel=off"}),
               variant("micro", {"batch.micro=4"})},
              10);
  if (!is_first()) return;
  for (const VariantReport& report : found.variants) {
    ASSERT_TRUE(report.rounding.has_value());
    EXPECT_TRUE(report.rounding->is_rounding) << report.seen.name << ": " << report.rounding->worst;
    EXPECT_GT(report.deviations.total.gradient, 0) << report.seen.name;
    EXPECT_LT(report.deviations.total.gradient, 5e-6) << report.seen.name;
  }
  EXPECT_EQ(found.variants[0].changed, Strings{"grid.tp"});
  const std::string text = comparison_text(found);
  EXPECT_THAT(text, AllOf(HasSubstr("the deviation is rounding"), HasSubstr("reduce_scatter tp (activation)"),
                          HasSubstr("layers.0.mlp.fc1.fprop: 32 x 32 x 32, f32 x f32"),
                          HasSubstr("'tp' against 'one'")));
  EXPECT_THAT(comparison_json(found), AllOf(HasSubstr("\"is_rounding\":true"), HasSubstr("\"rank_map\":")));
}

TEST_F(CompareTest, AnotherGridInFp8IsRunAgainInFullPrecision) {
  const Comparison found =
      compare({variant("one", {"backend.precision=fp8-delayed"}),
               variant("tp", {"backend.precision=fp8-delayed", "grid.tp=2", "grid.dp=2"})},
              2);
  if (!is_first()) return;
  const VariantReport& report = found.variants[0];
  EXPECT_THAT(faults_of(report.seen), IsEmpty()) << faults_of(report.seen)[0].evidence;
  ASSERT_TRUE(report.trial.has_value());
  EXPECT_EQ(report.trial->kind, Trial::Kind::full_precision);
  EXPECT_TRUE(report.trial->rounding.is_rounding) << report.trial->rounding.worst;
  EXPECT_GT(report.deviations.total.gradient, report.trial->after.gradient);
}

void expect_closed(const Comparison& found, const std::string& module) {
  const VariantReport& report = found.variants[0];
  ASSERT_FALSE(report.deviations.findings.empty());
  EXPECT_FALSE(report.deviations.findings[0].fault) << report.deviations.findings[0].evidence;
  EXPECT_EQ(report.deviations.findings[0].module, module) << report.deviations.findings[0].evidence;
  ASSERT_TRUE(report.trial.has_value());
  EXPECT_EQ(report.trial->module, module);
  EXPECT_TRUE(report.trial->closes);
  EXPECT_GT(report.trial->before.gradient, 1e-3);
  EXPECT_EQ(report.trial->after.gradient, 0);
  EXPECT_THAT(comparison_text(found), HasSubstr("the gap closes"));
}

// All modules but one are kept out: that one must be found, and without it nothing is left of the gap.
TEST_F(CompareTest, FindsTheOnlyModuleInFp8) {
  for (const char* precision : {"fp8-delayed", "fp8-current"}) {
    const Strings only = {text("backend.precision=", precision),
                          "precision.exclude=layers.0.*,layers.1.attention.*,layers.1.mlp.fc1"};
    const Comparison found =
        compare({variant("plain", {"backend.precision=bf16"}), variant("eight", only)}, 3);
    if (!is_first()) continue;
    expect_closed(found, "layers.1.mlp.fc2");
  }
}

TEST_F(CompareTest, WholeRecipesDeviateByTheirCastsOnly) {
  const Comparison found = compare(
      {variant("plain", {"backend.precision=bf16"}), variant("delayed", {"backend.precision=fp8-delayed"}),
       variant("current", {"backend.precision=fp8-current"})},
      3);
  if (!is_first()) return;
  for (const VariantReport& report : found.variants) {
    EXPECT_LT(report.deviations.total.loss, 1e-2) << report.seen.name;
    EXPECT_LT(report.deviations.total.gradient, 0.2) << report.seen.name;
    EXPECT_FALSE(report.deviations.findings[0].fault) << report.deviations.findings[0].evidence;
    ASSERT_EQ(report.seen.steps[0].casts.size(), 24u);
    for (const CastObservation& cast : report.seen.steps[0].casts) {
      EXPECT_GT(cast.error, 0.005) << cast.tensor;
      EXPECT_LT(cast.error, 0.1) << cast.tensor;
    }
  }
}

// Without weights nothing flows: no scale is ever known, which is said once by name, and no ratio is 0 / 0.
TEST_F(CompareTest, AModelOfZerosRaisesAlarmsAndDeviatesNowhere) {
  const Strings zero = {"backend.precision=fp8-delayed", "model.init_std=0"};
  const Comparison found = compare({variant("one", zero), variant("same", zero)}, 9);
  if (!is_first()) return;
  const auto count = [&](const std::string& what) {
    const auto& alarms = found.reference.alarms;
    return std::count_if(alarms.begin(), alarms.end(),
                         [&](const std::string& alarm) { return alarm.find(what) != std::string::npos; });
  };
  EXPECT_EQ(count("calibration has found no scale"), 1);
  EXPECT_EQ(count("is still empty"), 16);
  EXPECT_EQ(count("'layers.0.mlp.fc1.input' is still empty"), 1);
  EXPECT_EQ(found.variants[0].deviations.total.gradient, 0);
  EXPECT_THAT(found.variants[0].deviations.findings, IsEmpty());
}

TEST_F(CompareTest, ADivergedVariantIsAnErrorOnAllRanks) {
  try {
    compare({variant("one", {}),
             variant("hot", {"optimizer.learning_rate=1e30", "optimizer.min_learning_rate=0"})},
            6);
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::diverged);
    EXPECT_THAT(error.what(), HasSubstr("'hot' is not finite at step"));
  }
}

TEST_F(CompareTest, AnErrorOfAllRanksOfAnActionReachesThoseThatWait) {
  for (const int ranks : {1, 3, 4}) {
    try {
      on_first_ranks(world(), ranks, [](const World&) { fail(ExitStatus::data, "no data (a test); go on"); });
      FAIL() << "it went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::data);
      EXPECT_STREQ(error.what(), "no data (a test); go on");
    }
  }
}

}  // namespace
}  // namespace octachoron::compare_test
