#include "core/train/evaluate.h"

#include <cstdio>
#include <fstream>

#include "app/commands.h"
#include "app/ranks.h"
#include "core/parallel/together.h"

namespace octachoron {

namespace {

std::vector<std::string> overrides_of(const CommandLine& line) {
  std::vector<std::string> overrides = line.overrides;
  if (!line.data.empty()) overrides.push_back("data.validation=" + line.data);
  if (line.batches >= 0) overrides.push_back(text("data.validate_batches=", line.batches));
  return overrides;
}

}  // namespace

ExitStatus run_evaluate(const CommandLine& line) {
  return run_on_ranks([&](const World& world) {
    const std::string& checkpoint = line.positional.front();
    const Parameters parameters =
        together(world, [&] { return evaluation_parameters(checkpoint, overrides_of(line), world.size()); });
    const Evaluation evaluation = evaluate_checkpoint(checkpoint, parameters, world);
    if (world.rank() == 0) std::fputs(evaluation_text(parameters, evaluation).c_str(), stdout);
    return together(world, [&] {
      if (world.rank() == 0 && !line.json.empty() &&
          !(std::ofstream(line.json) << evaluation_json(checkpoint, parameters, evaluation) << std::flush))
        fail(ExitStatus::usage, "the result cannot be written to '", line.json,
             "' (it cannot be opened, or the disk is full); name a file in a writable folder");
      return ExitStatus::done;
    });
  });
}

}  // namespace octachoron
