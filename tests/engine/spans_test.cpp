// A device that times what is enqueued between two calls is asked to, by the names of the operations, and for
// those of a graph at its launch. (Devices without spans stamp: observed_test.)
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/engine/rig.h"
#include "tests/engine/span_device.h"

namespace octachoron::engine_test {
namespace {

SpanLog& log_of_device() {
  void* library = dlopen(OCTACHORON_SPAN_PLUGIN, RTLD_NOW | RTLD_LOCAL);  // the one that is loaded already
  return *reinterpret_cast<SpanLog* (*)()>(dlsym(library, kSpanLog))();
}

// On the first grid of the launch, after two steps.
struct Spanning {
  Spanning(const World& world, const char* graphs)
      : session(with(grids(world.size()).front(),
                     {"backend.device=" OCTACHORON_SPAN_PLUGIN, std::string("engine.graphs=") + graphs})),
        log(log_of_device()) {
    session.step(), session.step();
    log.timed.clear(), log.named.clear();
    log.stamps = log.graphs = 0, log.refuses_graphs = false;
  }
  Strings labels() {
    Strings result;
    for (const Issue& issue : session.session.training().expansion().issues)
      result.push_back(issue.operation->label);
    return result;
  }
  void expect_times(std::span<const OperationRecord> records, std::size_t before) {
    const Expansion& expansion = session.session.training().expansion();
    ASSERT_EQ(records.size(), expansion.issues.size());
    for (std::size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].issue, &expansion.issues[i]);
      EXPECT_EQ(records[i].begin_s, span_begin_s(before + i)) << i;
      EXPECT_EQ(records[i].end_s, span_end_s(before + i)) << i;
    }
  }

  Session session;
  SpanLog& log;
};

Strings behind_step(const Strings& labels) {
  Strings all = {"step"};
  all.insert(all.end(), labels.begin(), labels.end());
  return all;
}

TEST(Spans, TimeAndNameTheOperationsOfAnObservedStep) {
  const World world(MPI_COMM_WORLD);
  Spanning run(world, "off");
  const auto records = run.session.session.training().run_observed();
  EXPECT_EQ(run.log.timed, behind_step(run.labels())) << "the first one has the device begin to record";
  EXPECT_EQ(run.log.named, Strings{"step"});
  EXPECT_EQ(run.log.open, 0);
  EXPECT_EQ(run.log.stamps, 0);
  run.expect_times(records, 1);
}

TEST(Spans, NameTheOperationsOfAnyStep) {
  const World world(MPI_COMM_WORLD);
  Spanning run(world, "off");
  run.session.step();
  EXPECT_EQ(run.log.named, behind_step(run.labels()));
  EXPECT_TRUE(run.log.timed.empty());
  EXPECT_EQ(run.log.open, 0);
}

// A network that cannot stand in a graph leaves one rank alone to try it.
TEST(Spans, OfAGraphAreTimedByItsLaunch) {
  const World world(MPI_COMM_WORLD);
  if (world.size() > 1) GTEST_SKIP() << "this network cannot be captured";
  Spanning run(world, "on");
  EXPECT_EQ(run.log.captured, run.labels());
  run.session.step();
  EXPECT_EQ(run.log.named, Strings{"step"}) << "the graph was launched, not its operations";
  EXPECT_EQ(run.log.graphs, 0);
  auto records = run.session.session.training().run_observed();
  EXPECT_EQ(run.log.graphs, 1);
  EXPECT_EQ(run.log.timed, Strings{"step"});
  run.expect_times(records, 1);
  run.log.timed.clear(), run.log.refuses_graphs = true;
  records = run.session.session.training().run_observed();
  EXPECT_EQ(run.log.graphs, 1);
  EXPECT_EQ(run.log.timed, behind_step(run.labels())) << "operation by operation";
  run.expect_times(records, 1);
  EXPECT_EQ(run.log.open, 0);
  EXPECT_EQ(run.log.stamps, 0);
}

}  // namespace
}  // namespace octachoron::engine_test
