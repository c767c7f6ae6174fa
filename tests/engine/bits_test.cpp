// What no bit may depend on: timing of lanes, the overlap pass, and the way in which a step is executed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "core/base/text.h"
#include "tests/engine/rig.h"

namespace octachoron::engine_test {
namespace {

constexpr int kSteps = 3;

class Bits : public testing::Test {
 protected:
  void SetUp() override {
    const World world(MPI_COMM_WORLD);
    all_grids = grids(world.size());
  }
  std::vector<Strings> all_grids;
};

// Small buckets make many collectives; three micro-batches use both backward segments.
Strings busy(const Strings& grid) {
  const int dp = grid[0].back() - '0';
  return with(grid, {text("batch.global=", 3 * dp), "parallel.bucket=0.01"});
}

std::string after_steps(const Strings& overrides, const std::function<void(Session&)>& prepare = {}) {
  Session session(overrides);
  if (prepare) prepare(session);
  for (int step = 0; step < kSteps; ++step) session.step();
  session.expect_no_damage();
  return session.bits();
}

TEST_F(Bits, RanksAreProcesses) {
  const World world(MPI_COMM_WORLD);
  const int mine = int(getpid());
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  world.allgather(&mine, all.data(), sizeof mine);
  EXPECT_EQ(int(std::set<int>(all.begin(), all.end()).size()), world.size());
}

TEST_F(Bits, DelaysOfLanesChangeNothing) {
  for (const Strings& grid : all_grids) {
    const std::string expected = after_steps(busy(grid));
    for (const unsigned seed : {1u, 2u, 3u}) {
      const std::string delayed = after_steps(busy(grid), [&](Session& session) {
        session.session.training().set_delays(seed + 10 * unsigned(session.world.rank()), 2000);
      });
      EXPECT_TRUE(delayed == expected) << grid[0] << " " << grid[1] << ", seed " << seed;
    }
  }
}

TEST_F(Bits, OverlapChangesNothing) {
  for (const Strings& grid : all_grids)
    for (const char* sequence_parallel : {"on", "off"}) {
      const Strings overrides = with(busy(grid), {text("parallel.sequence_parallel=", sequence_parallel)});
      EXPECT_TRUE(after_steps(overrides) == after_steps(with(overrides, {"parallel.overlap=off"})))
          << grid[0] << " " << grid[1] << ", sp " << sequence_parallel;
    }
}

// Operation by operation, as --check does; and with records of every operation.
TEST_F(Bits, WaysToExecuteAreOne) {
  for (const Strings& grid : all_grids) {
    Session plain(busy(grid)), checked(busy(grid)), observed(busy(grid));
    for (std::int64_t step = 1; step <= kSteps; ++step) {
      const RankBatch input = batch(plain.parameters, plain.world.rank(), step);
      const StepResult expected = plain.session.step(input, 1e-2, step);
      StepResult result;
      EXPECT_EQ(checked.session.step_checked(input, 1e-2, step, result).place, -1);
      EXPECT_EQ(result.loss, expected.loss);
      EXPECT_EQ(result.grad_norm, expected.grad_norm);
      // The inputs of a step stay where step() puts them: the observed session runs them a second time.
      observed.session.step(input, 1e-2, step);
      EXPECT_EQ(observed.session.validate(input), plain.session.validate(input));
    }
    EXPECT_TRUE(plain.bits().substr(16) == checked.bits().substr(16)) << grid[0] << " " << grid[1];
    EXPECT_TRUE(plain.bits().substr(16) == observed.bits().substr(16)) << grid[0] << " " << grid[1];
    plain.session.training().run();
    observed.session.training().run_observed();
    EXPECT_TRUE(plain.bits().substr(16) == observed.bits().substr(16)) << grid[0] << " " << grid[1];
  }
}

// Whatever is not persistent begins each step with signalling bytes.
TEST_F(Bits, NothingButPersistentBuffersOutlivesAStep) {
  for (const Strings& grid : all_grids) {
    const std::string expected = after_steps(busy(grid));
    Session session(busy(grid));
    const std::int64_t end = persistent_bytes(session.session.programs().training);
    ASSERT_GT(end, 0);
    for (int step = 0; step < kSteps; ++step) {
      session.session.arena().poison(end);
      session.step();
    }
    EXPECT_TRUE(session.bits() == expected) << grid[0] << " " << grid[1];
  }
}

}  // namespace
}  // namespace octachoron::engine_test
