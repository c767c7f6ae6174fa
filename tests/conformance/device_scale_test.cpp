/// Scales from histories and of the tensor itself (contract 1.4 to 1.6), by known answers.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/numerics/formats.h"
#include "core/plugin/abi.h"
#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double bits(double amax) {
  return double(std::bit_cast<std::uint32_t>(float(amax)));
}

struct State {
  std::vector<double> history;
  double scale;
  bool operator==(const State&) const = default;
};
std::ostream& operator<<(std::ostream& out, const State& s) {
  out << s.scale << " of";
  for (const double h : s.history) out << " " << h;
  return out;
}

struct Rule {
  DType format = OCT_E4M3;
  int margin = 0;
  oct_amax_algorithm algorithm = OCT_AMAX_MAX;
  bool calibration = false;
};
State update(Rig& rig, const State& before, double amax, const Rule& rule = {}) {
  const auto width = std::int64_t(before.history.size());
  std::vector<Operand> o = {filled(OCT_U32, 1, 1, {bits(amax)}), filled(OCT_F32, 1, width, before.history),
                            filled(OCT_F32, 1, 1, {before.scale})};
  rig.run(OCT_UPDATE_SCALE, o,
          {.i = {rule.margin, rule.algorithm, rule.calibration}, .f = {format_maximum(rule.format)}});
  return {o[1].values, o[2].values[0]};
}

TEST(DeviceScale, TheMaximumEntersTheHistoryAndMakesTheScale) {
  Rig rig;
  EXPECT_EQ(update(rig, {{0, 0, 0}, 1}, 8), (State{{8, 0, 0}, 56}));
  EXPECT_EQ(update(rig, {{8, 0, 0}, 56}, 2), (State{{2, 8, 0}, 56}));
  EXPECT_EQ(update(rig, {{2, 1, 8}, 56}, 4), (State{{4, 2, 1}, 112})) << "the oldest leaves";
  EXPECT_EQ(update(rig, {{8}, 56}, 2), (State{{2}, 224})) << "a history of one";
  EXPECT_EQ(update(rig, {{0, 0}, 1}, 8, {.margin = 3}), (State{{8, 0}, 7}));
  EXPECT_EQ(update(rig, {{0}, 1}, 240), (State{{240}, rounded(OCT_F32, 448.f / 240.f)}));
  EXPECT_EQ(update(rig, {{0}, 1}, 7, {.format = OCT_E5M2}), (State{{7}, 8192}));
}

/// Fault A01: the scale of a very small amax stays finite, and so does its inverse.
TEST(DeviceScale, IsCapped) {
  Rig rig;
  for (const double amax : {1e-37, 1e-44}) EXPECT_EQ(update(rig, {{0}, 1}, amax).scale, kLargestScale);
  EXPECT_EQ(update(rig, {{0}, 1}, 1e-37, {.format = OCT_E5M2, .margin = 3}).scale, kLargestScale);
}

TEST(DeviceScale, ZeroInfinityAndNan) {
  Rig rig;
  EXPECT_EQ(update(rig, {{0, 0}, 1}, 0), (State{{0, 0}, 1}));
  EXPECT_EQ(update(rig, {{8, 4}, 56}, 0), (State{{0, 8}, 56})) << "zero is recorded";
  EXPECT_EQ(update(rig, {{0, 8}, 56}, 0), (State{{0, 0}, 56})) << "nothing positive: the scale stays";
  for (const double bad : {kInf, double(NAN)}) {
    EXPECT_EQ(update(rig, {{2, 8}, 56}, bad), (State{{2, 8}, 56}));
    EXPECT_EQ(update(rig, {{0, 0}, 1}, bad), (State{{0, 0}, 1}));
  }
}

TEST(DeviceScale, MostRecent) {
  Rig rig;
  const Rule rule = {.algorithm = OCT_AMAX_MOST_RECENT};
  EXPECT_EQ(update(rig, {{8, 4}, 56}, 2, rule), (State{{2, 8}, 224}));
  EXPECT_EQ(update(rig, {{8, 4}, 56}, 0, rule), (State{{0, 8}, 56})) << "the newest positive one";
  EXPECT_EQ(update(rig, {{4, 8}, 56}, NAN, rule), (State{{4, 8}, 112}));
}

TEST(DeviceScale, LongHistoriesRoll) {
  Rig rig;
  for (const std::size_t length : {127, 128, 129, 1000}) {
    State before = {std::vector<double>(length), 1}, after = {std::vector<double>(length), 896};
    for (std::size_t i = 0; i < length; ++i) before.history[i] = double(i + 1);
    std::copy(before.history.begin(), before.history.end() - 1, after.history.begin() + 1);
    after.history[0] = 0.5;
    EXPECT_EQ(update(rig, before, 0.5, {.algorithm = OCT_AMAX_MOST_RECENT}), after);
  }
}

TEST(DeviceScale, FrozenKeepsTheFirst) {
  Rig rig;
  const Rule rule = {.algorithm = OCT_AMAX_FROZEN};
  EXPECT_EQ(update(rig, {{0, 0}, 1}, 0, rule), (State{{0, 0}, 1}));
  EXPECT_EQ(update(rig, {{0, 0}, 1}, 8, rule), (State{{8, 0}, 56}));
  EXPECT_EQ(update(rig, {{8, 0}, 56}, 2, rule), (State{{2, 8}, 56}));
}

TEST(DeviceScale, CalibrationLeavesWhatIsKnown) {
  Rig rig;
  for (const auto algorithm : {OCT_AMAX_MAX, OCT_AMAX_MOST_RECENT, OCT_AMAX_FROZEN}) {
    const Rule rule = {.algorithm = algorithm, .calibration = true};
    EXPECT_EQ(update(rig, {{0, 4}, 112}, 8, rule), (State{{0, 4}, 112}));
    EXPECT_EQ(update(rig, {{0, 0}, 1}, 8, rule), (State{{8, 0}, 56}));
  }
}

/// Fault A05: rows are tensors; each moves once and by itself, whatever the pitch.
TEST(DeviceScale, RowByRowAtAnyPitch) {
  Rig rig;
  std::vector<Operand> o = {with_gap(filled(OCT_U32, 4, 1, {bits(0.5), bits(2), bits(NAN), bits(0)}), 3),
                            with_gap(filled(OCT_F32, 4, 3, {0, 0, 0, 8, 1, 1, 4, 0, 0, 0, 0, 0}), 1),
                            with_gap(filled(OCT_F32, 4, 1, {1, 56, 112, 3}), 3)};
  rig.run(OCT_UPDATE_SCALE, o, {.i = {0, OCT_AMAX_MAX, 0}, .f = {448}});
  EXPECT_EQ(o[1].values, (std::vector<double>{0.5, 0, 0, 2, 8, 1, 4, 0, 0, 0, 0, 0}));
  EXPECT_EQ(o[2].values, (std::vector<double>{896, 56, 112, 3}));
}

/// Fault A04: micro-batches of 8 and 2, in either order, make 56.
TEST(DeviceScale, MaximumOverMicroBatches) {
  Rig rig;
  for (const auto& order : {std::vector<double>{8, 2}, std::vector<double>{2, 8}}) {
    std::vector<Operand> amax = {filled(OCT_F32, 1, 1, {0}), zeros(OCT_U32, 1, 1)};
    for (const double value : order) {
      amax[0].values = {value};
      rig.run(OCT_AMAX, amax, {.i = {1}});
    }
    std::vector<Operand> o = {amax[1], zeros(OCT_F32, 1, 1), filled(OCT_F32, 1, 1, {1})};
    rig.run(OCT_UPDATE_SCALE, o, {.i = {0, OCT_AMAX_MOST_RECENT, 0}, .f = {448}});
    EXPECT_EQ(o[2].values[0], 56);
  }
}

double current(Rig& rig, double amax, const std::vector<double>& history = {}, double kept = 0) {
  const bool known = !history.empty();
  std::vector<Operand> o = {filled(OCT_U32, 1, 1, {bits(amax)}),
                            known ? filled(OCT_F32, 1, std::int64_t(history.size()), history) : absent(),
                            known ? filled(OCT_F32, 1, 1, {kept}) : absent(), filled(OCT_F32, 1, 1, {NAN})};
  rig.run(OCT_CURRENT_SCALE, o, {.i = {1}, .f = {448}});
  return o[3].values[0];
}

TEST(DeviceScale, Current) {
  Rig rig;
  EXPECT_EQ(current(rig, 8), 28) << "a margin of 1";
  for (const double none : {0., kInf, double(NAN)}) EXPECT_EQ(current(rig, none), 1);
  EXPECT_EQ(current(rig, 1e-37), kLargestScale);
  EXPECT_EQ(current(rig, 8, {0, 0}, 5), 28) << "calibration: nothing is known yet";
  EXPECT_EQ(current(rig, 8, {0, 3}, 5), 5);
  EXPECT_EQ(current(rig, NAN, {0, 3}, 5), 5);
}

/// Fault A02: zeros, and a matrix with one row of zeros, come back as they are.
TEST(DeviceScale, ZerosUnderCurrentScaling) {
  Rig rig;
  for (const bool all : {true, false}) {
    Operand x = all ? zeros(OCT_F32, 32, 32) : random(OCT_F32, 32, 32, 1);
    for (std::int64_t c = 0; c < 32; ++c) x.values[std::size_t(5 * 32 + c)] = 0;
    std::vector<Operand> amax = {x, zeros(OCT_U32, 1, 1)};
    rig.run(OCT_AMAX, amax);
    std::vector<Operand> scale = {amax[1], absent(), absent(), zeros(OCT_F32, 1, 1)};
    rig.run(OCT_CURRENT_SCALE, scale, {.f = {448}});
    if (all) {
      EXPECT_EQ(scale[3].values[0], 1);
    }
    std::vector<Operand> o = {x, scale[3], zeros(OCT_E4M3, 32, 32), absent(), absent(), zeros(OCT_U64, 1, 3)};
    rig.run(OCT_QUANTIZE, o);
    EXPECT_EQ(o[5].values, (std::vector<double>{0, 0, 0}));
    for (std::size_t k = 0; k < x.values.size(); ++k) {
      const double back = o[2].values[k] / scale[3].values[0];
      if (x.values[k] == 0) {
        EXPECT_EQ(back, 0);
      }
      EXPECT_NEAR(back, x.values[k], std::abs(x.values[k]) / 16 + 1e-5);
    }
  }
}

}  // namespace
}  // namespace octachoron::conformance
