#pragma once
/// Validation: the loss of the weights as they are, inside a run and of a checkpoint.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/data/batch.h"
#include "core/train/session.h"

namespace octachoron {

struct Evaluation {
  double loss = 0;  ///< nats, mean over all valid targets; NaN where there are none
  std::int64_t targets = 0, batches = 0;
  std::int64_t step = 0;  ///< of the checkpoint
  bool stopped = false;   ///< before the end
};

/// Mean loss of the first global batches in file order. Collective. \param batches 0: all \param stop asked
/// between batches, on all ranks alike; may be empty
Evaluation evaluate_batches(TrainingSession& session, const TokenData& data, const BatchShape& shape,
                            std::int64_t batches, const std::function<bool()>& stop);

/// The parameters that a checkpoint was saved with, overridden and checked anew, for a launch of `ranks`.
/// \param overrides "section.key=value"
/// \throws Error(data) if the file is unusable, Error(usage) for parameters that are not legal, another
/// model, or no validation data
Parameters evaluation_parameters(const std::string& checkpoint, const std::vector<std::string>& overrides,
                                 int ranks);

/// One JSON object: checkpoint, step, loss, perplexity, tokens (targets), batches, grid.
std::string evaluation_json(const std::string& checkpoint, const Parameters& parameters,
                            const Evaluation& evaluation);
/// "loss 2.5 nats, perplexity 12.2: ..."
std::string evaluation_text(const Parameters& parameters, const Evaluation& evaluation);

/// Loads the weights of a checkpoint and runs the validation program on data.validation. Nothing is
/// written. Collective. \throws Error(data) for a damaged checkpoint, unusable data, or no valid target
Evaluation evaluate_checkpoint(const std::string& checkpoint, const Parameters& parameters,
                               const World& world);

}  // namespace octachoron
