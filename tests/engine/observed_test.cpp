// Records of an observed step, and the memory that a step touches.
#include <gtest/gtest.h>

#include <array>

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

// One past the highest byte of the arena that is not the poison: what the device really wrote.
std::int64_t highest_written(Arena& arena) {
  std::int64_t end = arena.bytes();
  while (end > 0 && *arena.device_at(end - 1) == std::byte{0xFF}) --end;
  return end;
}

// Bytes of the buffer that lies highest in the arena.
std::int64_t bytes_of_highest(const PlannedProgram& planned) {
  const StepProgram& program = planned.program;
  std::int64_t highest = -1, bytes = 0;
  for (std::size_t i = 0; i < planned.plan.placement.size(); ++i) {
    const Buffer& buffer = program.buffers[i / std::size_t(program.instances_per_buffer())];
    if (buffer.memory == MemoryClass::host || planned.plan.placement[i] <= highest) continue;
    highest = planned.plan.placement[i];
    bytes = buffer.bytes;
  }
  return bytes;
}

// Poisons what does not outlive a step, lets `run` write, and looks at memory. No write may be behind the
// plan, and one must be in the highest buffer, or the plan would be too large. Not at its last byte: a buffer
// is rounded up to the alignment, the device need not fill scratch, and a value may end with the byte of the
// poison.
template <class Run>
void expect_written_as_planned(Session& session, const PlannedProgram& planned, Run run) {
  Arena& arena = session.session.arena();
  arena.poison(persistent_bytes(planned));
  run();
  const std::int64_t written = highest_written(arena);
  EXPECT_LE(written, planned.plan.arena_bytes);
  EXPECT_GT(written, planned.plan.arena_bytes - bytes_of_highest(planned) - kAlignment);
}

TEST(Observed, WritesWhatWasPlannedAndNoMore) {
  const World world(MPI_COMM_WORLD);
  for (const Strings& grid : grids(world.size())) {
    SCOPED_TRACE(grid[0] + " " + grid[1]);
    Session session(grid);
    const RankPrograms& programs = session.session.programs();
    EXPECT_EQ(session.session.arena().bytes(), programs.arena_bytes());
    // Validation needs less than training, so what it writes too far is still in the arena.
    EXPECT_LT(programs.validation.plan.arena_bytes, programs.arena_bytes());
    expect_written_as_planned(session, programs.training, [&] { session.step(); });
    expect_written_as_planned(session, programs.validation,
                              [&] { session.session.validate(batch(session.parameters, world.rank(), 9)); });
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
