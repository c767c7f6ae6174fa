// The schedule of the rate (contract 1.13) at its corners and half way between them.
#include "core/train/learning_rate.h"

#include <gtest/gtest.h>

namespace octachoron {
namespace {

// 3e-4 * 10 / 10 is not 3e-4 in binary: the peak must be the number given.
OptimizerParameters schedule(Decay decay) {
  OptimizerParameters optimizer;
  optimizer.learning_rate = 3e-4;
  optimizer.min_learning_rate = 1e-4;
  optimizer.warmup = 10;
  optimizer.decay = decay;
  optimizer.decay_steps = 50;
  return optimizer;
}

constexpr Decay kDecays[] = {Decay::cosine, Decay::linear, Decay::constant};

TEST(LearningRate, GrowsFromZeroToThePeak) {
  for (const Decay decay : kDecays) {
    EXPECT_DOUBLE_EQ(learning_rate(schedule(decay), 1), 3e-5);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(decay), 5), 1.5e-4);
    EXPECT_EQ(learning_rate(schedule(decay), 10), 3e-4);
  }
}

TEST(LearningRate, FallsToTheMinimum) {
  // A quarter of the way: 1 - 1/4 of the height, or (1 + cos(pi/4)) / 2 of it.
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Decay::linear), 20), 2.5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Decay::cosine), 20), 1e-4 + 2e-4 * 0.8535533905932737);
  for (const Decay decay : {Decay::linear, Decay::cosine}) {
    EXPECT_DOUBLE_EQ(learning_rate(schedule(decay), 30), 2e-4);  // half way
    for (const std::int64_t step : {50, 51, 1000})
      EXPECT_EQ(learning_rate(schedule(decay), step), 1e-4) << step;
  }
}

TEST(LearningRate, ConstantStaysAtThePeak) {
  for (const std::int64_t step : {10, 11, 30, 50, 1000})
    EXPECT_EQ(learning_rate(schedule(Decay::constant), step), 3e-4) << step;
}

TEST(LearningRate, WithoutAWarmUpStepOneIsBelowThePeakByOneStepOfTheDecay) {
  OptimizerParameters optimizer = schedule(Decay::linear);
  optimizer.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 1), 3e-4 - 2e-4 / 50);
  optimizer.decay = Decay::constant;
  EXPECT_EQ(learning_rate(optimizer, 1), 3e-4);
}

TEST(LearningRate, AWarmUpUntilTheEndOfTheDecayReachesThePeak) {
  for (const Decay decay : {Decay::linear, Decay::cosine}) {
    OptimizerParameters optimizer = schedule(decay);
    optimizer.warmup = optimizer.decay_steps;
    EXPECT_DOUBLE_EQ(learning_rate(optimizer, 25), 1.5e-4);
    EXPECT_EQ(learning_rate(optimizer, 50), 3e-4);
    EXPECT_EQ(learning_rate(optimizer, 51), 1e-4);
  }
}

}  // namespace
}  // namespace octachoron
