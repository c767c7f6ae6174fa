#pragma once
/// Where a run stands, and how it is found again after an interruption.
#include <limits>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/parallel/world.h"
#include "core/train/session.h"

namespace octachoron {

struct RunState {
  std::int64_t step = 0, samples = 0, skipped = 0;

  /// Number of the update that the next step makes: skipped steps made none, so Adam's bias correction does not count them.
  std::int64_t next_update() const { return step - skipped + 1; }
};

/// Program, compiler and device, as a checkpoint keeps them: with others, bits may differ.
std::string versions_of(const Device& device);
CheckpointHeader header_of(const RunState& state, const Parameters& parameters, const Device& device);

/// What the run will start from, decided before anything is allocated.
struct StartingPoint {
  std::string path;  ///< of the checkpoint; empty: from the seed
  RunState state;
  std::vector<std::string> notes;  ///< for the user: files passed over
  std::vector<std::string> lines;  ///< for the user: the file, changed parameters
  std::string versions;  ///< that it was made with; empty: there is none
  std::string tuning;  ///< algorithms that the run which made the file had chosen
  int damaged = 0;  ///< files with bad values that were passed over: they must not count among those a save keeps
  bool same_recipe = true;         ///< as the checkpoint was made with
};

/// \throws Error(data) where parameters that shape the model, or the seed, are not those of the checkpoint
void refuse_other_model(const std::string& path, const CheckpointHeader& header, const Parameters& parameters);

/// Collective. \throws Error(data) for another model shape or seed, Error(usage) for `none` where checkpoints
/// of this run exist
StartingPoint find_starting_point(const Parameters& parameters, const World& world,
                                  std::int64_t below_step = std::numeric_limits<std::int64_t>::max());

/// Initialises the session, then loads the checkpoint if there is one. With run.resume = auto a file whose
/// values are damaged is passed over for an older one. Collective. \return where the run really starts
StartingPoint load_starting_point(StartingPoint start, const Parameters& parameters, const World& world,
                                  TrainingSession& session);

/// Whether scales that come with a checkpoint of those parameters are what the recipe of `now` would have made.
bool same_scaling(const std::string& stored, const Parameters& now);

/// Lines "key: old -> new" of what differs between the parameters of a checkpoint and those of this run.
std::vector<std::string> parameter_differences(const std::string& stored, const Parameters& now);

}  // namespace octachoron
