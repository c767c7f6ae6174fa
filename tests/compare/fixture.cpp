#include "tests/compare/fixture.h"

#include "core/compare/observe.h"
#include "core/parallel/first_ranks.h"
#include "core/program/waits.h"
#include "core/train/agreed_programs.h"

namespace octachoron::compare_test {

Variant CompareTest::variant(const std::string& name, const Strings& overrides) const {
  const std::string file = text(
      "[run]\nsteps = 20\nseed = 3\n[model]\nlayers = 2\nhidden = 32\nheads = 4\nffn = 64\nvocab = "
      "64\nsequence = 16\n",
      "init_std = 0.1\n[batch]\nglobal = 8\nmicro = 2\n[optimizer]\nlearning_rate = 3e-3\ndecay = constant\n",
      "[engine]\nthreads = 1\n[data]\nformat = text\ntrain = ", data_.path(), "\n");
  return {name, parity::parameters_of(file, overrides)};
}

Comparison CompareTest::compare(const std::vector<Variant>& variants, std::int64_t steps,
                                const std::map<std::string, Plant>& planted) const {
  const Observe observe = [&](const Variant& variant, std::int64_t count) {
    const auto plant = planted.find(variant.name);
    if (plant == planted.end()) return observe_on(world_)(variant, count);
    Observation seen;
    const Parameters& parameters = variant.parameters;
    on_first_ranks(world_, grid_of(parameters).size(), [&](const World& part) {
      Backend backend(parameters, part);
      RankPrograms programs =
          agreed_programs(parameters, {grid_of(parameters), &backend.device(), &backend.recipe()}, part, Casts::apart);
      if (plant->second.programs) plant->second.programs(programs);
      TrainingSession session(parameters, part, backend, std::move(programs));
      session.initialise();
      if (plant->second.state) plant->second.state(session);
      seen = observe_session(variant, part, backend, session, count);
    });
    return seen;
  };
  return compare_variants(world_, variants, steps, observe);
}

void finish(PlannedProgram& planned) {
  derive_waits(planned.program);
  planned.plan = plan_memory(planned.program);
}

void change_operations(RankPrograms& programs, const std::function<void(Operation&)>& change) {
  for (Segment& segment : programs.training.program.segments)
    for (Operation& operation : segment.operations) change(operation);
  finish(programs.training);
}

void delete_operations(RankPrograms& programs, const std::function<bool(const Operation&)>& holds) {
  std::size_t deleted = 0;
  for (Segment& segment : programs.training.program.segments)
    deleted += std::erase_if(segment.operations, holds);
  ensure(deleted > 0, "there is no such operation");
  finish(programs.training);
}

}  // namespace octachoron::compare_test
