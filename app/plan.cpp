#include <cstdio>
#include <fstream>

#include "app/commands.h"
#include "core/checkpoint/stage.h"
#include "core/engine/backend.h"
#include "core/report/plan_report.h"
#include "core/train/session.h"

namespace octachoron {

ExitStatus run_plan(const CommandLine& line) {
  const Parameters parameters = read_parameters(line, line.ranks);
  DryBackend backend(parameters);
  const Target target{grid_of(parameters), &backend.device(), &backend.recipe()};
  const PlanReport report = plan_run(parameters, target, save_bytes);
  std::fputs(plan_text(report).c_str(), stdout);
  if (!line.json.empty() && !(std::ofstream(line.json) << plan_json(report) << std::flush))
    fail(ExitStatus::usage, "cannot write '", line.json, "'; name a file in a writable folder");
  return report.problems.empty() ? ExitStatus::done : ExitStatus::internal;
}

}  // namespace octachoron
