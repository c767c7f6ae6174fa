#include "core/schedule/rank_programs.h"

#include <fnmatch.h>

#include <algorithm>

#include "core/base/error.h"

namespace octachoron {

namespace {

PlannedProgram planned(StepProgram program) {
  MemoryPlan plan = plan_memory(program);
  return {std::move(program), std::move(plan)};
}

// Masters and moments stay where they are when the run goes from one program to the other.
void check_persistent(const PlannedProgram& a, const PlannedProgram& b) {
  for (std::size_t i = 0; i < a.program.buffers.size(); ++i) {
    const Buffer& buffer = a.program.buffers[i];
    if (!buffer.persistent) continue;
    const int other = b.program.find_buffer(buffer.name);
    ensure(other >= 0 && a.plan.placement[i * a.program.instances_per_buffer()] ==
                             b.plan.placement[other * b.program.instances_per_buffer()],
           "the programs disagree on the place of '", buffer.name, "'");
  }
}

// A glob that matches no module would leave in FP8 what the user wanted out of it.
void check_excluded(const Parameters& parameters, const std::vector<PrecisionRow>& modules) {
  for (const std::string& glob : parameters.precision.exclude) {
    const auto matches = [&](const PrecisionRow& row) { return fnmatch(glob.c_str(), row.module.c_str(), 0) == 0; };
    if (std::any_of(modules.begin(), modules.end(), matches)) continue;
    fail(ExitStatus::usage, "precision.exclude = ", glob, " matches no module (modules are ", modules.front().module, " to ",
         modules.back().module, "); name one of them, or layers.*.mlp.*");
  }
}

}  // namespace

RankPrograms build_rank_programs(const Parameters& parameters, const Target& target, int rank, Casts casts) {
  RankPrograms programs;
  const ModelShape shape = model_shape(parameters, target.grid);
  programs.quantization = quantization_plan(shape, *target.recipe, parameters.precision.fallback != "refuse");
  check_excluded(parameters, programs.quantization.table);
  refuse_misaligned(programs.quantization, shape);
  programs.set = parameter_set(parameters, target.grid, target.grid.coordinate(rank), programs.quantization);
  const auto built = [&](ProgramKind kind) {
    return planned(build_program(kind, parameters, target, programs.set, programs.quantization, casts));
  };
  programs.training = built(ProgramKind::training);
  programs.validation = built(ProgramKind::validation);
  check_persistent(programs.training, programs.validation);
  if (!programs.quantization.needs_calibration()) return programs;
  programs.calibration = built(ProgramKind::calibration);
  check_persistent(programs.training, *programs.calibration);
  return programs;
}

}  // namespace octachoron
