#include <cstdio>
#include <fstream>

#include "app/commands.h"
#include "core/checkpoint/stage.h"
#include "core/engine/backend.h"
#include "core/report/draw.h"
#include "core/report/example_report.h"
#include "core/report/plan_report.h"
#include "core/train/session.h"

namespace octachoron {

namespace {

// What `plan` gives, whatever it planned.
struct Answer {
  std::string text, json;
  std::string drawing;  ///< empty: not asked for
  bool verified = false;
};

void write(const std::string& file, const std::string& content) {
  if (!file.empty() && !(std::ofstream(file) << content << std::flush))
    fail(ExitStatus::usage, "cannot write '", file, "'; name a file in a writable folder");
}

Answer answer(const Parameters& parameters, const Target& target, bool drawn) {
  if (parameters.example.pattern != ExamplePattern::none) {
    const ExampleReport report = plan_example(parameters, target);
    return {example_text(report), example_json(report), drawn ? draw_program(report.planned.program) : "",
            report.problems.empty()};
  }
  const PlanReport report = plan_run(parameters, target, save_bytes);
  return {plan_text(report), plan_json(report), drawn ? draw_layer(report.programs.training.program) : "",
          report.problems.empty()};
}

}  // namespace

ExitStatus run_plan(const CommandLine& line) {
  const Parameters parameters = read_parameters(line, line.ranks);
  DryBackend backend(parameters);
  const Answer plan =
      answer(parameters, {grid_of(parameters), &backend.device(), &backend.recipe()}, !line.draw.empty());
  std::fputs(plan.text.c_str(), stdout);
  write(line.json, plan.json);
  write(line.draw, plan.drawing);
  return plan.verified ? ExitStatus::done : ExitStatus::internal;
}

}  // namespace octachoron
