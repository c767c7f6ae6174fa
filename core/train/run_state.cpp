#include "core/train/run_state.h"

#include <map>

#include "core/base/version.h"
#include "core/checkpoint/load.h"
#include "core/config/parameter_file.h"
#include "core/parallel/together.h"
#include "core/train/algorithm_choices.h"

namespace octachoron {

namespace {

// Keys that decide whether the tensors of a checkpoint are those of this model.
bool shapes_the_model(const std::string& key) {
  return key.starts_with("model.") && key != "model.norm_epsilon" && key != "model.init_std" &&
         key != "model.rope_theta";
}

std::map<std::string, std::string> by_key(const std::string& parameters) {
  std::map<std::string, std::string> values;
  for (const ParameterLine& line : tokenize(parameters, "the checkpoint")) values[line.key] = line.value;
  return values;
}

}  // namespace

void refuse_other_model(const std::string& path, const CheckpointHeader& header,
                        const Parameters& parameters) {
  const auto stored = by_key(header.parameters), now = by_key(format_parameters(parameters));
  for (const auto& [key, value] : now) {
    const auto found = stored.find(key);
    if (!shapes_the_model(key) || found == stored.end() || found->second == value) continue;
    fail(ExitStatus::data, "checkpoint '", path, "' is of another model (", key, " = ", found->second,
         " there, ", value,
         " here); use the parameters it was made with, or another run.name and run.output");
  }
  if (header.seed != parameters.run.seed)
    fail(ExitStatus::data, "checkpoint '", path, "' is of another run (seed ", header.seed, " there, ",
         parameters.run.seed, " here); set run.seed = ", header.seed,
         ", or use another run.name and run.output");
}

std::string versions_of(const Device& device) {
  return text("octachoron ", version(), ", ", compiler(), ", ", device.properties().description);
}

CheckpointHeader header_of(const RunState& state, const Parameters& parameters, const Device& device) {
  CheckpointHeader header;
  header.step = state.step;
  header.samples = state.samples;
  header.tokens = state.samples * parameters.model.sequence;
  header.skipped = state.skipped;
  header.seed = parameters.run.seed;
  header.run_id = parameters.run.name;
  header.parameters = format_parameters(parameters);
  header.versions = versions_of(device);
  header.tuning = read_choices(parameters.run.output);
  return header;
}

std::vector<std::string> parameter_differences(const std::string& stored, const Parameters& now) {
  const auto before = by_key(stored), after = by_key(format_parameters(now));
  std::vector<std::string> lines;
  for (const auto& [key, value] : after) {
    const auto found = before.find(key);
    if (found == before.end())
      lines.push_back(key + ": not in the checkpoint -> " + value);
    else if (found->second != value)
      lines.push_back(key + ": " + found->second + " -> " + value);
  }
  return lines;
}

bool same_scaling(const std::string& stored, const Parameters& now) {
  for (const std::string& difference : parameter_differences(stored, now))
    for (const char* key : {"backend.precision", "precision.format", "precision.margin", "precision.amax_", "plugin."})
      if (difference.starts_with(key)) return false;
  return true;
}

StartingPoint find_starting_point(const Parameters& parameters, const World& world, std::int64_t below_step) {
  StartingPoint start;
  start.path = parameters.run.resume;
  if (start.path == "auto" || start.path == "none") {
    const LatestCheckpoint latest =
        find_latest(world.comm(), parameters.checkpoint.directory, parameters.run.name, below_step);
    start.notes = latest.notes;
    if (start.path == "none" && !latest.path.empty())
      fail(ExitStatus::usage, "run.resume = none, but '", latest.path,
           "' exists (a checkpoint of this run); resume it, ",
           "remove it, or choose another run.name and run.output");
    start.path = latest.path;
  }
  if (start.path.empty()) {
    start.lines.push_back(text("starts from seed ", parameters.run.seed));
    return start;
  }
  const CheckpointHeader header = together(world, [&] {  // a folder may be visible on some nodes only
    const CheckpointHeader found = CheckpointFile(start.path).header();
    refuse_other_model(start.path, found, parameters);
    return found;
  });
  start.versions = header.versions;
  start.tuning = header.tuning;
  start.state = {header.step, header.samples, header.skipped};
  start.lines.push_back(text("resumes '", start.path, "' after step ", header.step));
  for (const std::string& difference : parameter_differences(header.parameters, parameters))
    start.lines.push_back("changed since: " + difference);
  start.same_recipe = same_scaling(header.parameters, parameters);
  return start;
}

StartingPoint load_starting_point(StartingPoint start, const Parameters& parameters, const World& world,
                                  TrainingSession& session) {
  for (;;) try {
      session.initialise();  // padding, and what a checkpoint does not hold
      if (!start.path.empty())
        for (const std::string& line : session.load(start.path, start.same_recipe)) start.lines.push_back(line);
      return start;
    } catch (const CheckpointDamaged& error) {  // its values, which are first read here
      if (parameters.run.resume != "auto") throw;
      StartingPoint older = find_starting_point(parameters, world, start.state.step);
      start.notes.push_back(error.what());
      older.damaged = start.damaged + 1;
      older.notes.insert(older.notes.begin(), start.notes.begin(), start.notes.end());
      start = std::move(older);
    }
}

}  // namespace octachoron
