#include "core/train/example_run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "core/engine/backend.h"
#include "core/engine/executor.h"
#include "core/parallel/together.h"
#include "core/report/example_report.h"
#include "core/trace/collective_table.h"
#include "core/trace/step_trace.h"
#include "core/train/agreed_programs.h"
#include "core/train/session.h"

namespace octachoron {

namespace {

using HostClock = std::chrono::steady_clock;

class ExampleRun {
 public:
  ExampleRun(const Parameters& parameters, const World& world)
      : parameters_(parameters),
        world_(world),
        grid_(grid_of(parameters)),
        backend_(parameters, world),
        report_(together(world, [&] { return verified(); })),
        groups_(backend_.communicator(), grid_, world.rank()),
        lanes_(backend_.device()),
        arena_(backend_.device(), report_.planned.plan.arena_bytes, report_.planned.plan.host_bytes),
        executor_(report_.planned.program, report_.planned.plan,
                  {backend_.device(), backend_.communicator(), groups_, lanes_, arena_, grid_, world.rank()}),
        tracer_(world, grid_,
                network_facts(backend_),
                [this] { return backend_.device().clock(lanes_.get(executor_.program().lanes.front())); }) {}

  void run() {
    say(example_text(report_));
    for (std::int64_t step = 1; step <= parameters_.run.steps; ++step) execute(step);
  }

  void abandon() { backend_.communicator().abort(); }

 private:
  void say(const std::string& text) const {
    if (world_.rank() == 0) std::printf("%s", text.c_str()), std::fflush(stdout);
  }

  ExampleReport verified() {
    ExampleReport report = plan_example(parameters_, {grid_, &backend_.device(), &backend_.recipe()});
    ensure(report.problems.empty(), "the example is not free of races and deadlocks");
    return report;
  }

  void execute(std::int64_t step) {
    world_.barrier();  // so that skew is the machine's, not the launch's
    const HostClock::time_point begin = HostClock::now();
    const auto records = executor_.run_observed();
    const double seconds = std::chrono::duration<double>(HostClock::now() - begin).count();
    const Timeline timeline = tracer_.timeline(executor_, records, seconds);
    say(text("step ", step, ", means over ranks: ", accounting_text(tracer_.mean(timeline)), "\n"));
    if (step == parameters_.run.steps)
      say("timeline of the last step on rank 0: " +
          timeline_text(timeline, collective_table(timeline, judge(timeline))));
    const auto& traced = parameters_.trace.steps;
    if (std::binary_search(traced.begin(), traced.end(), step)) write(step, timeline);
  }

  void write(std::int64_t step, const Timeline& timeline) const {
    const auto written = tracer_.write(parameters_.run.output + "/trace", step, timeline);
    if (written.problem.empty()) return say(text("written '", written.path, "'\n"));
    if (world_.rank() == 0)
      std::fprintf(
          stderr, "octachoron: the timeline of step %lld is not written (%s); free space or set run.output\n",
          static_cast<long long>(step), written.problem.c_str());
  }

  const Parameters& parameters_;
  const World& world_;
  ProcessGrid grid_;
  Backend backend_;
  ExampleReport report_;
  GroupTable groups_;
  LaneSet lanes_;
  Arena arena_;
  Executor executor_;
  StepTracer tracer_;
};

}  // namespace

ExitStatus run_example(const Parameters& parameters, const World& world) {
  agree_on_parameters(parameters, false, world);
  auto run = std::make_unique<ExampleRun>(parameters, world);
  try {
    run->run();
  } catch (...) {
    // As in train(): what transfers point to stays until the process ends, which is next.
    run->abandon();
    (void)run.release();
    throw;
  }
  return ExitStatus::done;
}

}  // namespace octachoron
