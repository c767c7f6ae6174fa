/// Gradient norm, clip and AdamW by known answers.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {
namespace {

TEST(DeviceOptimizer, SumOfSquares) {
  for (const DType type : kTypes) {
    for (const std::int64_t columns : {1, 5, 16384, 40001}) {
      std::vector<std::vector<double>> sums;
      for (const int threads : {1, 2, 3}) {
        Rig rig(threads);
        std::vector<Operand> o = {with_gap(random(type, 3, columns, 1), 2), filled(OCT_F64, 1, 1, {100})};
        double expected = 100;
        for (const double v : o[0].values) expected += v * v;
        rig.run(OCT_SUM_OF_SQUARES, o, {.i = {1}});
        EXPECT_NEAR(o[1].values[0], expected, 1e-12 * expected);
        sums.push_back(o[1].values);
        o[1].values[0] = NAN;  // is overwritten
        rig.run(OCT_SUM_OF_SQUARES, o, {.i = {0}});
        EXPECT_NEAR(o[1].values[0], expected - 100, 1e-12 * expected);
      }
      EXPECT_EQ(sums[1], sums[0]);
      EXPECT_EQ(sums[2], sums[0]);
    }
  }
}

std::vector<double> clip(double split, double replicated, double loss, double limit) {
  Rig rig;
  std::vector<Operand> o = {filled(OCT_F64, 1, 4, {split, replicated, loss, 0}),
                            filled(OCT_F64, 1, 8, {0, 1, 0.25}), zeros(OCT_F64, 1, 4)};
  o[1].values.resize(8);
  rig.run(OCT_CLIP, o, {.f = {limit}});
  return o[2].values;
}

/// Fault B10: 3 in total on split parameters and 4 on replicated ones make 5, and a limit of 1 multiplies by
/// 0.2.
TEST(DeviceOptimizer, ClipKnownAnswers) {
  EXPECT_EQ(clip(9, 16, 28, 1), (std::vector<double>{5, 0.2, 1, 7}));
  EXPECT_EQ(clip(9, 16, 28, 0), (std::vector<double>{5, 1, 1, 7}));
  EXPECT_EQ(clip(9, 16, 28, 6), (std::vector<double>{5, 1, 1, 7}));
  EXPECT_EQ(clip(0, 0, 0, 1), (std::vector<double>{0, 1, 1, 0}));
  EXPECT_EQ(clip(NAN, 16, 28, 1)[2], 0);
  EXPECT_EQ(clip(INFINITY, 16, 28, 1)[2], 0);
  EXPECT_EQ(clip(9, 16, NAN, 1)[2], 0);
}

struct Step {
  double rate = 0.01, step = 1, factor = 1, flag = 1;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, decay = 0.1;
};

std::vector<Operand> adamw_operands(const Step& s, DType gradient, DType master, DType weight,
                                    std::int64_t n) {
  return {random(gradient, 1, n, 1),
          filled(OCT_F64, 1, 8, {s.rate, s.step, 1, 0, 0, 0, 0, 0}),
          filled(OCT_F64, 1, 4, {1, s.factor, s.flag, 0}),
          random(master, 1, n, 2),
          random(master, 1, n, 3, 0.1),
          filled(master, 1, n,
                 [n] {
                   auto v = random(OCT_F64, 1, n, 4, 0.1).values;
                   for (double& x : v) x *= x;
                   return v;
                 }()),
          random(weight, 1, n, 5)};
}
Attributes attributes(const Step& s) {
  return {.f = {s.beta1, s.beta2, s.epsilon, s.decay}};
}

TEST(DeviceOptimizer, AdamwAgainstTheFormula) {
  Rig rig;
  for (const DType master : {OCT_F32, OCT_F64}) {
    if (!computes(master)) continue;
    for (const DType weight : {OCT_BF16, OCT_F32}) {
      const Step s = {.step = 7, .factor = 0.3};
      std::vector<Operand> o = adamw_operands(s, master, master, weight, 5003);
      std::vector<double> p = o[3].values;
      for (std::size_t k = 0; k < p.size(); ++k) {
        const double g = o[0].values[k] * s.factor;
        const double m = s.beta1 * o[4].values[k] + (1 - s.beta1) * g,
                     v = s.beta2 * o[5].values[k] + (1 - s.beta2) * g * g;
        const double root = std::sqrt(v / (1 - std::pow(s.beta2, s.step)));
        p[k] -= s.rate * s.decay * p[k] + s.rate * (m / (1 - std::pow(s.beta1, s.step))) / (root + s.epsilon);
      }
      rig.run(OCT_ADAMW, o, attributes(s));
      EXPECT_LE(difference(o[3].values, p), master == OCT_F64 ? 1e-14 : 2e-7);
      for (std::size_t k = 0; k < p.size(); ++k) {
        ASSERT_EQ(o[6].values[k], rounded(weight, o[3].values[k]));
      }
    }
  }
}

/// Fault F07: a constant gradient moves a weight by the rate at every step, whatever its size, if the step
/// counts on.
TEST(DeviceOptimizer, AdamwKnownSteps) {
  Rig rig;
  Step s = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 0, .decay = 0};
  std::vector<Operand> o = {filled(OCT_F32, 1, 2, {1, -250}),
                            {},
                            {},
                            filled(OCT_F32, 1, 2, {5, 5}),
                            zeros(OCT_F32, 1, 2),
                            zeros(OCT_F32, 1, 2)};
  for (int step = 1; step <= 11; ++step) {
    o[1] = filled(OCT_F64, 1, 8, {s.rate, double(step), 1, 0, 0, 0, 0, 0});
    o[2] = filled(OCT_F64, 1, 4, {1, 1, 1, 0});
    const std::vector<double> before = o[3].values;
    rig.run(OCT_ADAMW, o, attributes(s));
    EXPECT_NEAR((before[0] - o[3].values[0]) / s.rate, 1, 1e-4) << step;
    EXPECT_NEAR((before[1] - o[3].values[1]) / s.rate, -1, 1e-4) << step;
  }
}

/// Gradients of zero, as in padding, and one whose square is: with epsilon 0 the update would be 0 / 0 or x / 0.
TEST(DeviceOptimizer, NothingToDivideByIsNoUpdate) {
  Rig rig;
  const Step s = {.epsilon = 0, .decay = 0};
  for (const auto& [type, tiny] : {std::pair{OCT_F32, 1e-30}, {OCT_F64, 1e-200}}) {
    if (!computes(type)) continue;
    std::vector<Operand> o = {filled(type, 1, 3, {0, tiny, -tiny}),
                              filled(OCT_F64, 1, 8, {s.rate, 1, 1, 0, 0, 0, 0, 0}),
                              filled(OCT_F64, 1, 4, {1, 1, 1, 0}),
                              filled(type, 1, 3, {5, 6, 7}),
                              zeros(type, 1, 3),
                              zeros(type, 1, 3)};
    rig.run(OCT_ADAMW, o, attributes(s));
    EXPECT_EQ(o[3].values, (std::vector<double>{5, 6, 7}));
  }
}

TEST(DeviceOptimizer, DecayIsDecoupled) {
  Rig rig;
  const Step s = {.rate = 0.5, .decay = 0.5};
  std::vector<Operand> o = {zeros(OCT_F32, 1, 1),
                            filled(OCT_F64, 1, 8, {0.5, 1, 1, 0, 0, 0, 0, 0}),
                            filled(OCT_F64, 1, 4, {1, 1, 1, 0}),
                            filled(OCT_F32, 1, 1, {8}),
                            zeros(OCT_F32, 1, 1),
                            zeros(OCT_F32, 1, 1)};
  rig.run(OCT_ADAMW, o, attributes(s));
  EXPECT_EQ(o[3].values[0], 6);
}

TEST(DeviceOptimizer, FlagZeroLeavesEveryByte) {
  Rig rig;
  std::vector<Operand> o = adamw_operands({.flag = 0}, OCT_F32, OCT_F32, OCT_BF16, 777);
  o[0].values[5] = NAN;
  const std::vector<Operand> before = o;
  rig.run(OCT_ADAMW, o, attributes({}));
  for (std::size_t k = 3; k < o.size(); ++k) EXPECT_EQ(o[k].values, before[k].values) << k;
}

TEST(DeviceOptimizer, ThreadsDoNotChangeBits) {
  std::vector<std::vector<Operand>> results;
  for (const int threads : {1, 2, 3}) {
    results.push_back(adamw_operands({}, OCT_F32, OCT_F32, OCT_BF16, 50001));
    Rig(threads).run(OCT_ADAMW, results.back(), attributes({}));
  }
  for (const auto& o : results) {
    for (std::size_t k = 3; k < o.size(); ++k) EXPECT_EQ(o[k].values, results[0][k].values);
  }
}

}  // namespace
}  // namespace octachoron::conformance
