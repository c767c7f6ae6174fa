#include "core/train/trainer.h"

#include "app/commands.h"
#include "app/ranks.h"
#include "app/stop_signal.h"
#include "core/config/validate.h"
#include "core/data/token_data.h"
#include "core/parallel/together.h"
#include "core/train/example_run.h"

namespace octachoron {

namespace {

std::int64_t vocabulary_of_files(const Parameters& parameters, bool may_be_missing) {
  const DataParameters& data = parameters.data;
  std::vector<std::string> files = data.train;
  files.insert(files.end(), data.validation.begin(), data.validation.end());
  return data_vocabulary(files, data.format, may_be_missing);
}

}  // namespace

Parameters read_parameters(const CommandLine& line, int ranks) {
  ParsedParameters parsed = parse_parameters(line.parameter_file, line.overrides);
  const bool dry = line.command == "plan";
  finalize(parsed, dry && parsed.values.model.vocab > 0 ? 0 : vocabulary_of_files(parsed.values, dry));
  validate(parsed.values, ranks);
  return parsed.values;
}

ExitStatus run_train(const CommandLine& line) {
  return run_on_ranks([&](const World& world) {
    const Parameters parameters = together(world, [&] { return read_parameters(line, world.size()); });
    if (parameters.example.pattern != ExamplePattern::none) {
      if (line.check)
        fail(ExitStatus::usage,
             "--check has no meaning for example.pattern (it looks for the origin of a loss); remove it");
      return run_example(parameters, world);
    }
    return train(parameters, world, {.check = line.check, .stop_signal = &stop_signal()});
  });
}

}  // namespace octachoron
