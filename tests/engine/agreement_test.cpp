// Ranks that were started with different parameters are refused, all of them and with the same sentence;
// nobody waits for a peer that does something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/train/agreed_programs.h"
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

// What all ranks say where the last has `odd` parameters beside the common ones, or alone `--check`.
std::string disagreement(const World& world, const std::string& odd, bool check = false) {
  const Strings grid = grids(world.size()).front();
  const bool last = world.rank() == world.size() - 1;
  std::string sentence = "none";
  try {
    agree_on_parameters(small_model::parameters(last ? with(grid, {odd}) : grid), last && check, world);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::usage);
    sentence = error.what();
  }
  EXPECT_EQ(sentence, world.broadcast(sentence, 0));
  return sentence;
}

TEST(Agreement, OtherParametersAreRefused) {
  const World world(MPI_COMM_WORLD);
  if (world.size() == 1) GTEST_SKIP() << "it agrees with itself";
  for (const auto& [odd, difference] : {std::pair{"run.seed=7", "run.seed: 1 -> 7"},
                                        {"optimizer.warmup=3", "optimizer.warmup: 0 -> 3"},
                                        {"run.resume=none", "run.resume: auto -> none"},
                                        {"model.ffn=64", "model.ffn: "}})
    EXPECT_THAT(disagreement(world, odd),
                testing::HasSubstr(text("other parameters than rank 0 (", difference)));
  EXPECT_THAT(disagreement(world, "run.seed=1", true), testing::HasSubstr("(--check: off -> on)"));
}

TEST(Agreement, PathsAndThreadsMayDiffer) {
  const World world(MPI_COMM_WORLD);
  for (const char* odd : {"run.output=elsewhere", "engine.threads=2", "data.train=here/text"}) {
    EXPECT_EQ(disagreement(world, odd), "none") << odd;
    EXPECT_EQ(refusal(world, grids(world.size()).front(), odd), "none") << odd;
  }
}

}  // namespace
}  // namespace octachoron::engine_test
