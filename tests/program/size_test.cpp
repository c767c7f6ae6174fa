// A large model on a large grid is planned and verified in seconds.
#include <gtest/gtest.h>

#include <ctime>

#include "tests/program/toy.h"

namespace octachoron {
namespace {

double seconds() {  // of the processor: other work on the machine does not count
  return double(std::clock()) / CLOCKS_PER_SEC;
}

void measure(const toy::ModelShape& shape) {
  const double start = seconds();
  const toy::Pipeline pipeline(shape);
  const double built = seconds();
  std::vector<MemoryPlan> plans;
  for (const StepProgram& program : pipeline.programs) plans.push_back(plan_memory(program));
  const double planned = seconds();
  for (std::size_t i = 0; i < plans.size(); ++i)
    EXPECT_TRUE(verify_memory(pipeline.roles[i], plans[i].placement).empty()) << pipeline.roles[i].name;
  const double checked = seconds();
  const OrderReport report = pipeline.order(Queues::serial);
  const double ordered = seconds();
  const OrderReport all = pipeline.order(Queues::serial, false);
  const double everyone = seconds();
  EXPECT_TRUE(report.problems.empty());
  EXPECT_TRUE(all.problems.empty());
  std::printf("%d ranks, %lld operations of all roles, arena %.2f GB (%.2f live, %.2f apart)\n", report.ranks,
              static_cast<long long>(report.issues), plans[0].arena_bytes / 1e9, plans[0].live_bytes / 1e9,
              plans[0].apart_bytes / 1e9);
  std::printf("build %.3f s, plan %.3f, memory %.3f, order %.3f, rank by rank %.3f\n", built - start,
              planned - built, checked - planned, ordered - checked, everyone - ordered);
  EXPECT_LT(everyone - start, 10);
}

TEST(Size, OneStage) {
  measure({.layers = 32, .micro_batches = 64, .tokens = 512, .hidden = 1024, .tp = 8, .dp = 16});
}
TEST(Size, EightStages) {
  measure({.layers = 32, .micro_batches = 64, .tokens = 512, .hidden = 1024, .tp = 8, .dp = 16, .stages = 8});
}
TEST(Size, EverythingInFlight) {
  measure(
      {.layers = 32, .micro_batches = 64, .tokens = 16, .hidden = 1024, .tp = 8, .dp = 16, .gpipe = true});
}

}  // namespace
}  // namespace octachoron
