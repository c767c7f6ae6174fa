// Alarms from windows of steps made by hand.
#include "core/train/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace octachoron {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr std::int64_t kElements = 10000;

std::vector<HealthTensor> tensors() {
  return {{.name = "layers.0.mlp.fc1.input", .elements = kElements, .format_max = 448, .history = 4},
          {.name = "layers.1.mlp.fc2.grad_output", .elements = kElements, .format_max = 57344, .history = 4}};
}

// A sound step: the loss falls, the scale follows the amax.
HealthSample sound(std::int64_t step) {
  const float amax = 2 + 0.01f * float(step);
  HealthSample sample{.step = step, .loss = 3 - 0.01 * double(step)};
  sample.records = {{.amax = amax, .saturated = 0, .flushed = 10, .nonfinite = 0},
                    {.amax = amax, .saturated = 0, .flushed = 10, .nonfinite = 0}};
  sample.scales = {448 / amax, 57344 / amax};
  sample.known = {true, true};
  return sample;
}

using Change = std::function<void(HealthSample&)>;
std::vector<HealthSample> window(int steps, const Change& change) {
  std::vector<HealthSample> window;
  for (int step = 1; step <= steps; ++step) {
    window.push_back(sound(step));
    change(window.back());
  }
  return window;
}

struct Case {
  const char* name;
  int steps;
  Change change;
  std::vector<std::string> alarms;  ///< kind and tensor
  const char* advice = "";
};

const char* const kInput = " layers.0.mlp.fc1.input";

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {"sound", 16, [](HealthSample&) {}, {}},
      {"rising",
       16,
       [](HealthSample& s) { s.records[0].saturated = std::uint64_t(s.step * s.step); },
       {std::string("saturation") + kInput},
       "set precision.margin = 1"},
      {"rising, but not yet a trend",
       7,
       [](HealthSample& s) { s.records[0].saturated = std::uint64_t(s.step * 100); },
       {}},
      {"steady saturation", 16, [](HealthSample& s) { s.records[0].saturated = 100; }, {}},
      {"few saturate", 16, [](HealthSample& s) { s.records[0].saturated = s.step > 15; }, {}},
      {"flush",
       8,
       [](HealthSample& s) { s.records[0].flushed = kElements / 5; },
       {std::string("flush") + kInput},
       "precision.exclude = layers.0.mlp.fc1"},
      {"little flush", 8, [](HealthSample& s) { s.records[0].flushed = kElements / 20; }, {}},
      {"frozen, amax grows",
       16,
       [](HealthSample& s) { s.scales[0] = 100, s.records[0].amax = s.step > 10 ? 20.0f : 4.48f; },
       {std::string("frozen scale") + kInput},
       "choose another recipe"},
      {"frozen, amax shrinks",
       16,
       [](HealthSample& s) { s.scales[0] = 100, s.records[0].amax = s.step > 10 ? 1.0f : 4.48f; },
       {std::string("frozen scale") + kInput}},
      {"frozen, amax stays", 16, [](HealthSample& s) { s.scales[0] = 100, s.records[0].amax = 4.48f; }, {}},
      {"a maximum still in its history",
       16,
       [](HealthSample& s) { s.scales[0] = s.step > 12 ? 100.0f : 90.0f, s.records[0].amax = 1; },
       {}},
      {"empty",
       8,
       [](HealthSample& s) { s.known[0] = false, s.records[0].amax = 0; },
       {std::string("empty history") + kInput},
       "look at what layers.0.mlp.fc1 gets"},
      {"empty at first", 12, [](HealthSample& s) { s.known[0] = s.step > 8; }, {}},
      {"nonfinite",
       1,
       [](HealthSample& s) { s.records[0].nonfinite = 3; },
       {std::string("nonfinite") + kInput},
       "train --check"},
      {"nonfinite before", 2, [](HealthSample& s) { s.records[0].nonfinite = s.step == 1 ? 3 : 0; }, {}},
      {"spike",
       10,
       [](HealthSample& s) { s.loss = s.step == 10 ? 4 : 3; },
       {"loss "},
       "optimizer.learning_rate"},
      {"noise", 10, [](HealthSample& s) { s.loss = s.step == 10 ? 3.3 : 3 + 0.1 * double(s.step % 3); }, {}},
      {"spike too early", 5, [](HealthSample& s) { s.loss = s.step == 5 ? 9 : 3; }, {}},
      {"no target", 10, [](HealthSample& s) { s.loss = s.step == 10 ? NAN : 3; }, {}},
  };
  return list;
}

TEST(Health, NamesWhatIsWrongAndNothingElse) {
  for (const Case& each : cases()) {
    std::vector<std::string> found;
    const auto alarms = health_alarms(tensors(), window(each.steps, each.change));
    for (const Alarm& alarm : alarms) {
      found.push_back(alarm.kind + " " + alarm.tensor);
      EXPECT_THAT(alarm.text, testing::ContainsRegex(".+ \\(.+\\); .+")) << each.name;
      EXPECT_THAT(alarm.text, HasSubstr(each.advice)) << each.name;
      EXPECT_THAT(alarm.text, HasSubstr(alarm.tensor)) << each.name;
    }
    EXPECT_EQ(found, each.alarms) << each.name;
  }
}

// The scale after the first calibration, kept for ever: said after eight steps, and how to leave it.
TEST(Health, KnowsTheFrozenRule) {
  auto frozen = tensors();
  frozen[0].history = 1024, frozen[0].frozen = true;
  const auto drift = [](HealthSample& s) {
    s.scales[0] = 100, s.records[0].amax = 4.48f * std::exp2(0.5f * float(s.step));
  };
  const auto alarms = health_alarms(frozen, window(8, drift));
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_THAT(alarms[0].text, HasSubstr("set precision.amax_algorithm = max"));
  frozen[0].frozen = false;
  EXPECT_THAT(health_alarms(frozen, window(16, drift)), IsEmpty());
}

TEST(Health, WorstTensorsFirst) {
  HealthSample sample = sound(1);
  sample.records[0] = {}, sample.records[1] = {};
  EXPECT_THAT(worst_tensors(tensors(), sample, 3), IsEmpty());
  sample.records[0].flushed = 5, sample.records[1].nonfinite = 1;
  EXPECT_THAT(worst_tensors(tensors(), sample, 3),
              ElementsAre(StartsWith("layers.1.mlp.fc2.grad_output: saturated 0"),
                          "layers.0.mlp.fc1.input: saturated 0  flushed 5  "
                          "nonfinite 0  of 10000"));
  EXPECT_EQ(worst_tensors(tensors(), sample, 1).size(), 1u);
}

}  // namespace
}  // namespace octachoron
