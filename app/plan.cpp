#include <cstdio>
#include <fstream>

#include "app/commands.h"
#include "core/engine/backend.h"
#include "core/report/draw.h"
#include "core/report/plan_report.h"
#include "core/train/session.h"

namespace octachoron {

namespace {

void write(const std::string& file, const std::string& content) {
  if (!(std::ofstream(file) << content << std::flush))
    fail(ExitStatus::usage, "cannot write '", file, "'; name a file in a writable folder");
}

}  // namespace

ExitStatus run_plan(const CommandLine& line) {
  const Parameters parameters = read_parameters(line, line.ranks);
  DryBackend backend(parameters);
  const PlanReport report = plan_run(parameters, {grid_of(parameters), &backend.device(), &backend.recipe()});
  std::fputs(plan_text(report).c_str(), stdout);
  if (!line.json.empty()) write(line.json, plan_json(report));
  if (!line.draw.empty()) write(line.draw, draw_layer(report.programs.training.program));
  return report.problems.empty() ? ExitStatus::done : ExitStatus::internal;
}

}  // namespace octachoron
