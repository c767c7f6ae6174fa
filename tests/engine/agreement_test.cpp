// Ranks that were started with different parameters are refused, all of them and with the same sentence;
// nobody waits for a peer that does something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/engine/rig.h"
#include "tests/schedule/small_model.h"

namespace octachoron::engine_test {
namespace {

// How a session ends to be made where the last rank has `odd` parameters beside the common ones.
std::string refusal(const World& world, const Strings& grid, const std::string& odd) {
  const bool last = world.rank() == world.size() - 1;
  try {
    Session session(last ? with(grid, {odd}) : grid);
    return "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::usage);
    return error.what();
  }
}

void expect_refused(const std::string& odd, const std::string& reason) {
  const World world(MPI_COMM_WORLD);
  if (world.size() == 1) return;  // it agrees with itself
  for (const Strings& grid : grids(world.size())) {
    const std::string sentence = refusal(world, grid, odd);
    EXPECT_THAT(sentence, testing::HasSubstr(reason)) << grid[0] << " " << grid[1] << ", " << odd;
    EXPECT_EQ(sentence, world.broadcast(sentence, 0));
    Session(grid).step();  // nothing is left behind
  }
}

TEST(Agreement, OtherProgramsAreRefused) {
  for (const char* odd : {"model.ffn=64", "batch.global=8", "optimizer.beta2=0.99"})
    expect_refused(odd, "the ranks would run different programs (rank ");
}

TEST(Agreement, OtherParametersOfTheSameProgramAreRefused) {
  expect_refused("run.seed=7", "other parameters than rank 0 (run.seed: 1 -> 7); ");
  expect_refused("optimizer.warmup=3", "other parameters than rank 0 (optimizer.warmup: 0 -> 3); ");
}

TEST(Agreement, PathsAndThreadsMayDiffer) {
  const World world(MPI_COMM_WORLD);
  for (const char* odd : {"run.output=elsewhere", "engine.threads=2", "data.train=here/text"})
    EXPECT_EQ(refusal(world, grids(world.size()).front(), odd), "none") << odd;
}

}  // namespace
}  // namespace octachoron::engine_test
