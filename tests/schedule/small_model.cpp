#include "tests/schedule/small_model.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/parameter_file.h"
#include "core/config/validate.h"
#include "core/engine/backend.h"

namespace octachoron::small_model {

namespace {

constexpr const char* kFile = R"(
[run]
steps = 10
[backend]
plugin_path = )" OCTACHORON_BINARY_DIR R"(/lib/octachoron
[model]
layers = 2
hidden = 32
heads = 4
sequence = 16
vocab = 50
[batch]
global = 4
[data]
train = text
[engine]
threads = 1
)";

constexpr Queues kAllQueues[] = {Queues::serial, Queues::chained, Queues::lanes};

}  // namespace

Parameters parameters(const std::vector<std::string>& overrides) {
  ParsedParameters parsed = parse_parameter_text(kFile, "small.ini", overrides);
  finalize(parsed, 0);
  validate(parsed.values, 0);
  return parsed.values;
}

Parameters fp8_parameters(const std::vector<std::string>& overrides) {
  std::vector<std::string> chosen{"backend.precision=fp8-delayed", "model.hidden=64", "model.sequence=64",
                                  "batch.global=4"};
  for (const std::string& override : overrides) {
    const std::string key = override.substr(0, override.find('=') + 1);
    std::erase_if(chosen, [&](const std::string& other) { return other.starts_with(key); });
    chosen.push_back(override);
  }
  return parameters(chosen);
}

ProcessGrid grid(const Parameters& parameters) {
  return {{parameters.grid.tp, parameters.grid.cp, parameters.grid.dp, parameters.grid.pp}};
}

RankPrograms programs(const Parameters& parameters, int rank) {
  DryBackend backend(parameters);
  return build_rank_programs(parameters, {grid(parameters), &backend.device(), &backend.recipe()}, rank);
}

std::vector<Setting> settings() {
  std::vector<Setting> result;
  for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}, {4, 1}, {1, 4}})
    for (const char* sequence_parallel : {"on", "off"})
      for (const char* tied : {"on", "off"})
        for (const int micro_batches : {1, 3})
          result.push_back(
              {text(dp, "x", tp, ", sequence parallel ", sequence_parallel, ", tied ", tied, ", ",
                    micro_batches, " micro-batches"),
               {text("grid.dp=", dp), text("grid.tp=", tp), text("batch.global=", dp * micro_batches),
                text("parallel.sequence_parallel=", sequence_parallel),
                text("model.tie_embeddings=", tied)}});
  return result;
}

std::vector<std::string> order_problems(const ProcessGrid& grid, const Mixed& programs, Queues queues) {
  const auto role_of = [&](const Coordinate& at) {
    return int(std::count(programs.odd_ranks.begin(), programs.odd_ranks.end(), grid.rank(at)));
  };
  return verify_order(grid, {{"common", programs.common}, {"odd", programs.odd}}, role_of, queues, false)
      .problems;
}

std::vector<std::string> all_problems(const ProcessGrid& grid, const PlannedProgram& planned) {
  const Role role{"all", &planned.program};
  std::vector<std::string> problems = verify_memory(role, planned.plan.placement);
  for (const Queues queues : kAllQueues)
    for (const bool symmetry : {true, false}) {
      const OrderReport report = verify_order(
          grid, {role}, [](const Coordinate&) { return 0; }, queues, symmetry);
      problems.insert(problems.end(), report.problems.begin(), report.problems.end());
      if (report.simulated != (symmetry ? 1 : grid.size()))
        problems.push_back(text("simulated ", report.simulated, " of ", grid.size(), " ranks"));
    }
  return problems;
}

Segment& segment(StepProgram& program, const std::string& name) {
  for (Segment& segment : program.segments)
    if (segment.name == name) return segment;
  fail(ExitStatus::internal, "the program has no segment '", name, "'");
}

}  // namespace octachoron::small_model
