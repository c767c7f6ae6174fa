// The reference pattern hides its gather, the counter-examples do not, and the timeline says why. Each
// message takes 20 ms longer than it would, so that the clock of a busy machine does not decide.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/report/example_report.h"
#include "core/trace/collective_table.h"
#include "core/trace/step_trace.h"
#include "tests/engine/rig.h"
#include "tests/schedule/small_model.h"

namespace octachoron::engine_test {
namespace {

Parameters example(const World& world, const char* pattern) {
  return small_model::parameters({text("example.pattern=", pattern), text("grid.tp=", world.size()),
                                  "model.hidden=640", "model.heads=8", "model.sequence=640",
                                  "batch.global=1"});
}

struct Seen {
  Verdict gather;
  double hidden_share = 0;
  float output = 0;
};

// The best of some runs, by what was hidden and how little the ranks waited for each other: other work on the
// machine takes its share.
Seen run(const World& world, const Parameters& parameters) {
  Machine machine(world, parameters);
  Prepared prepared(machine, build_example(parameters, machine.target()));
  const StepTracer tracer(world, machine.grid, {true, true}, [] { return 0.0; });
  Seen best;
  double best_score = -1e9;
  for (int run = 0; run < 5; ++run) {
    world.barrier();
    const Timeline timeline = tracer.timeline(prepared.executor, prepared.executor.run_observed(), 1);
    const Verdict gather = judge(timeline).front();
    const double score = (gather.hidden_s - gather.exposed_skew_s) / gather.transfer_s;
    if (score <= best_score) continue;
    best_score = score;
    best.gather = gather, best.hidden_share = gather.hidden_s / gather.transfer_s;
  }
  best.output = *reinterpret_cast<const float*>(prepared.data("output"));
  return best;
}

void expect_exposed(const Seen& seen, const char* why) {
  EXPECT_LT(seen.hidden_share, 0.01);
  EXPECT_GT(seen.gather.exposed_s(), 0.015);
  if (seen.gather.reason == Reason::late_peer) return;  // a busy machine: then that cost most, and is said
  EXPECT_EQ(seen.gather.reason, Reason::consumer_follows);
  EXPECT_NE(seen.gather.why.find(why), std::string::npos) << seen.gather.why;
}

TEST(Example, TheTimelineTellsThePatternsApart) {
  const Environment delay("OCTACHORON_COMM_DELAY_US", "20000");
  const World world(MPI_COMM_WORLD);
  const Seen independent = run(world, example(world, "independent")),
             at_once = run(world, example(world, "wait_at_once")),
             dependent = run(world, example(world, "dependent"));
  // The linear may take less than the 20 ms; what there is of it runs beside the gather.
  EXPECT_GT(independent.hidden_share, 0.2);
  EXPECT_NE(independent.gather.reason, Reason::consumer_follows) << independent.gather.why;
  expect_exposed(at_once, "'consumer' needs it and is next; 'second_linear' behind it would be independent");
  expect_exposed(dependent,
                 "'second_linear' needs it and is next; nothing behind it in its segment is independent");
  for (const Seen* seen : {&independent, &at_once, &dependent}) EXPECT_NEAR(seen->output, 2, 1e-4);
}

TEST(Example, ThePlanTellsThePatternsApart) {
  const World world(MPI_COMM_WORLD);
  const auto plan = [&](const char* pattern) {
    const Parameters parameters = example(world, pattern);
    DryBackend backend(parameters);
    const ExampleReport report =
        plan_example(parameters, {small_model::grid(parameters), &backend.device(), &backend.recipe()});
    EXPECT_EQ(report.problems.size(), 0u) << pattern;
    return windows_text(report.planned.program);
  };
  EXPECT_EQ(plan("independent"),
            "  all_gather 'gather': 'second_linear' may run beside it, before 'consumer' waits for it\n");
  EXPECT_EQ(plan("wait_at_once"),
            "  all_gather 'gather': nothing is independent before 'consumer' waits for it; 'second_linear' "
            "behind the "
            "wait would be independent: the wait is too early\n");
  EXPECT_EQ(plan("dependent"),
            "  all_gather 'gather': nothing is independent before 'second_linear' waits for it\n");
}

}  // namespace
}  // namespace octachoron::engine_test
