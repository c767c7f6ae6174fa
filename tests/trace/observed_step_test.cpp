// Steps of the small model on real ranks: tracing changes no bit, and what it says adds up.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/text.h"
#include "core/trace/collective_table.h"
#include "core/trace/step_trace.h"
#include "tests/engine/rig.h"

namespace octachoron::engine_test {
namespace {

namespace fs = std::filesystem;

Strings busy(const Strings& grid) {
  const int dp = grid[0].back() - '0';
  return with(grid, {text("batch.global=", 3 * dp), "parallel.bucket=0.01"});
}

struct Observed {
  std::string bits;
  StepResult last;
};

Observed after_steps(const Strings& overrides, bool observed) {
  Session session(overrides);
  Observed result;
  for (std::int64_t step = 0; step < 3; ++step) {
    const RankBatch input = batch(session.parameters, session.world.rank(), step);
    std::span<const OperationRecord> records;
    result.last = observed ? session.session.step_observed(input, 1e-2, step + 1, records)
                           : session.session.step(input, 1e-2, step + 1);
    EXPECT_EQ(records.empty(), !observed);
  }
  session.expect_no_damage();
  result.bits = session.bits();
  return result;
}

TEST(ObservedStep, HasTheBitsOfAnyOther) {
  const World world(MPI_COMM_WORLD);
  for (const Strings& grid : grids(world.size())) {
    const Observed expected = after_steps(busy(grid), false), seen = after_steps(busy(grid), true);
    EXPECT_TRUE(seen.bits == expected.bits) << grid[0] << " " << grid[1];
    EXPECT_EQ(seen.last.loss, expected.last.loss);
    EXPECT_EQ(seen.last.grad_norm, expected.last.grad_norm);
  }
}

// A folder that all ranks know and rank 0 removes.
class Folder {
 public:
  explicit Folder(const World& world) : world_(world) {
    std::string made = (fs::temp_directory_path() / "octachoron-trace-XXXXXX").string();
    if (world.rank() == 0 && mkdtemp(made.data()) == nullptr) made.clear();
    path = world.broadcast(made, 0);
  }
  ~Folder() {
    if (world_.rank() == 0) fs::remove_all(path);
  }
  Folder(const Folder&) = delete;
  std::string path;

 private:
  const World& world_;
};

Timeline traced_step(Session& session, const StepTracer& tracer) {
  std::span<const OperationRecord> records;
  const auto begin = std::chrono::steady_clock::now();
  session.session.step_observed(batch(session.parameters, session.world.rank(), 0), 1e-2, 1, records);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return tracer.timeline(session.session.training(), records, seconds);
}

TEST(ObservedStep, TheAccountingAddsUpAndTheFileIsReadable) {
  const World world(MPI_COMM_WORLD);
  const Folder folder(world);
  for (const Strings& grid : grids(world.size())) {
    SCOPED_TRACE(grid[0] + " " + grid[1]);
    Session session(busy(grid));
    const StepTracer tracer(world, session.session.grid(), {true, true},
                            [&] { return session.session.device_clock(); });
    const Timeline timeline = traced_step(session, tracer);
    const Accounting mean = tracer.mean(timeline);
    EXPECT_GT(mean.compute, 0);
    EXPECT_GT(mean.comm, 0);
    EXPECT_GT(mean.idle, 0);  // the batch is copied, the program enqueued
    EXPECT_NEAR(mean.step, mean.compute + mean.comm - mean.overlap + mean.idle, 1e-9 * mean.step);
    double axes = 0;
    for (const double ms : mean.exposed_by_axis) axes += ms;
    EXPECT_NEAR(axes, mean.exposed, 1e-6 * mean.step);
    EXPECT_EQ(mean.exposed_by_axis[int(Axis::pp)], 0);
    for (const Interval& interval : timeline.intervals) {
      EXPECT_LE(interval.entered_s, interval.begin_s);
      EXPECT_LE(interval.begin_s, interval.end_s);
    }
    const auto written = tracer.write(folder.path + "/trace", 1, timeline);
    if (world.rank() != 0) continue;
    EXPECT_EQ(written.problem, "");
    const std::string check = "python3 " OCTACHORON_SOURCE_DIR "/tests/trace/check_trace.py '" +
                              written.path + "' " + std::to_string(world.size());
    EXPECT_EQ(std::system(check.c_str()), 0) << written.path;
    EXPECT_NE(written.text.find("reason"), std::string::npos) << written.text;
  }
}

TEST(ObservedStep, AFolderThatCannotBeMadeIsSaidNotThrown) {
  const World world(MPI_COMM_WORLD);
  Session session(grids(world.size()).front());
  const StepTracer tracer(world, session.session.grid(), {true, true},
                          [&] { return session.session.device_clock(); });
  const auto written = tracer.write("/dev/null/trace", 1, traced_step(session, tracer));
  EXPECT_EQ(written.problem.empty(), world.rank() != 0);
}

}  // namespace
}  // namespace octachoron::engine_test
