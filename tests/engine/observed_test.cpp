// Records of an observed step, and the memory that a step touches.
#include <gtest/gtest.h>

#include <array>

#include "core/base/checked.h"
#include "tests/engine/rig.h"

namespace octachoron::engine_test {
namespace {

void expect_program_order(const Executor& executor, std::span<const OperationRecord> records) {
  const Expansion& expansion = executor.expansion();
  ASSERT_EQ(records.size(), expansion.issues.size());
  std::array<double, kMaxLanes> lane_end{};
  for (std::size_t i = 0; i < records.size(); ++i) {
    const OperationRecord& record = records[i];
    ASSERT_EQ(record.issue, &expansion.issues[i]);  // every operation once
    const std::string who = describe(executor.program(), *record.issue);
    EXPECT_GT(record.begin_s, 0) << who;
    EXPECT_LE(record.begin_s, record.end_s) << who;
    double& end_of_previous = lane_end[std::size_t(record.issue->lane())];
    EXPECT_LE(end_of_previous, record.begin_s) << who;
    end_of_previous = record.end_s;
    for (int lane = 0; lane < kMaxLanes; ++lane)
      if (const int event = record.issue->waits[lane]; event > 0) {
        EXPECT_LE(records[std::size_t(expansion.issue_of(lane, event))].end_s, record.begin_s)
            << who << " of lane " << executor.program().lanes[lane].name;
      }
  }
}

TEST(Observed, RecordsFollowLanesAndWaits) {
  const World world(MPI_COMM_WORLD);
  for (const Strings& grid : grids(world.size())) {
    Session session(with(grid, {"parallel.bucket=0.01"}));
    session.step();  // puts the inputs in their places
    Executor& training = session.session.training();
    double last_end = 0;
    for (const int delay_us : {0, 1000}) {
      training.set_delays(5, delay_us);
      const auto records = training.run_observed();
      expect_program_order(training, records);
      for (const OperationRecord& record : records) EXPECT_GT(record.begin_s, last_end);
      for (const OperationRecord& record : records) last_end = std::max(last_end, record.end_s);
    }
    session.expect_no_damage();
  }
}

TEST(Observed, TouchesWhatWasPlannedAndNoMore) {
  const World world(MPI_COMM_WORLD);
  for (const Strings& grid : grids(world.size())) {
    Session session(grid);
    const RankPrograms& programs = session.session.programs();
    const auto planned = [](const Executor& executor) {
      return round_up(executor.highest_byte(), kAlignment);
    };
    EXPECT_EQ(planned(session.session.training()), programs.training.plan.arena_bytes);
    EXPECT_EQ(planned(session.session.validation()), programs.validation.plan.arena_bytes);
    EXPECT_EQ(session.session.arena().bytes(), programs.arena_bytes());
    for (int step = 0; step < 3; ++step) session.step();
    session.session.validate(batch(session.parameters, world.rank(), 9));
    session.expect_no_damage();
  }
}

TEST(Observed, AWriteBehindTheArenaIsSeen) {
  const World world(MPI_COMM_WORLD);
  Session session(grids(world.size()).front());
  Arena& arena = session.session.arena();
  std::byte& guard = *arena.device_at(arena.bytes());
  EXPECT_TRUE(arena.guard_intact());
  guard ^= std::byte{1};
  EXPECT_FALSE(arena.guard_intact());
  guard ^= std::byte{1};
  EXPECT_TRUE(arena.guard_intact());
}

}  // namespace
}  // namespace octachoron::engine_test
