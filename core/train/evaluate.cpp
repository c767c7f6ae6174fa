#include "core/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "core/base/json.h"
#include "core/checkpoint/load.h"
#include "core/config/validate.h"
#include "core/parallel/together.h"
#include "core/train/algorithm_choices.h"
#include "core/train/run_state.h"

namespace octachoron {

namespace {

// What lives as long as transfers may be in flight.
struct Parts {
  Parts(const Parameters& parameters, const World& world)
      : backend(parameters, world, read_choices(parameters.run.output).empty() ? "" : parameters.run.output), session(parameters, world, backend) {}

  Backend backend;
  TrainingSession session;
};

// A recipe that the checkpoint was not trained with knows no scales of activations: they come from the first batch.
void calibrate(Parts& parts, const TokenData& data, const BatchShape& shape) {
  if (parts.session.precision().unknown().empty()) return;
  RankBatch batch;
  validation_batch(data, shape, 0, batch);
  parts.session.calibrate(batch);
}

}  // namespace

Evaluation evaluate_batches(TrainingSession& session, const TokenData& data, const BatchShape& shape,
                            std::int64_t batches, const std::function<bool()>& stop) {
  const std::int64_t all = validation_batches(data, shape);
  const std::int64_t count = batches > 0 ? std::min(batches, all) : all;
  Evaluation out;
  double sum = 0;
  RankBatch batch;
  for (; out.batches < count; ++out.batches) {
    if (out.batches > 0 && stop && stop()) {
      out.stopped = true;
      break;
    }
    validation_batch(data, shape, out.batches, batch);
    if (batch.global_valid_targets == 0) continue;  // all masked, on all ranks
    sum += session.validate(batch) * double(batch.global_valid_targets);
    out.targets += batch.global_valid_targets;
  }
  out.loss = out.targets > 0 ? sum / double(out.targets) : std::numeric_limits<double>::quiet_NaN();
  return out;
}

Parameters evaluation_parameters(const std::string& checkpoint, const std::vector<std::string>& overrides,
                                 int ranks) {
  const CheckpointHeader header = CheckpointFile(checkpoint).header();
  ParsedParameters parsed = parse_parameter_text(header.parameters, checkpoint, overrides);
  finalize(parsed, 0);
  refuse_other_model(checkpoint, header, parsed.values);
  if (parsed.values.data.validation.empty())
    fail(ExitStatus::usage, "evaluate has no data (the run of '", checkpoint,
         "' had no data.validation); add --data FILE");
  validate(parsed.values, ranks);
  return parsed.values;
}

std::string evaluation_json(const std::string& checkpoint, const Parameters& parameters,
                            const Evaluation& evaluation) {
  const GridParameters& grid = parameters.grid;
  return text("{\"checkpoint\":", json_text(checkpoint), ",\"step\":", evaluation.step,
              ",\"loss\":", json_number(evaluation.loss),
              ",\"perplexity\":", json_number(std::exp(evaluation.loss)), ",\"tokens\":", evaluation.targets,
              ",\"batches\":", evaluation.batches, ",\"grid\":{\"dp\":", grid.dp, ",\"tp\":", grid.tp,
              ",\"pp\":", grid.pp, ",\"cp\":", grid.cp, "}}\n");
}

std::string evaluation_text(const Parameters& parameters, const Evaluation& evaluation) {
  return text("loss ", json_number(evaluation.loss), " nats, perplexity ", std::exp(evaluation.loss),
              ": mean over ", evaluation.targets, " targets in ", evaluation.batches, " batches of ",
              parameters.batch.global, " x ", parameters.model.sequence, ", after step ", evaluation.step,
              ", on ", to_string(grid_of(parameters)), "\n");
}

Evaluation evaluate_checkpoint(const std::string& checkpoint, const Parameters& parameters,
                               const World& world) {
  const ProcessGrid grid = grid_of(parameters);
  const BatchShape shape{parameters.batch.global, parameters.batch.micro, parameters.grid.dp,
                         grid.coordinate(world.rank())[int(Axis::dp)]};
  const auto data = together(world, [&] {
    return std::make_unique<TokenData>(parameters.data.validation, parameters.data.format,
                                       parameters.model.sequence, parameters.model.vocab,
                                       ScanShare{world.rank(), world.size()});
  });
  auto parts = std::make_unique<Parts>(parameters, world);
  try {
    parts->session.initialise();  // padding, and what a checkpoint does not hold
    const CheckpointHeader header = together(world, [&] { return CheckpointFile(checkpoint).header(); });
    parts->session.load(checkpoint, same_scaling(header.parameters, parameters), Moments::leave);
    calibrate(*parts, *data, shape);
    Evaluation out = evaluate_batches(parts->session, *data, shape, parameters.data.validate_batches, {});
    if (out.targets == 0)
      fail(ExitStatus::data, "the first ", out.batches, " batches of '", parameters.data.validation.front(),
           "' have no target (the loss mask leaves out all of them); give more with --batches");
    out.step = header.step;
    return out;
  } catch (...) {
    // Transfers to and from peers may still be in flight: they are ended, and what they point to stays until
    // the process ends, which is next.
    parts->backend.communicator().abort();
    (void)parts.release();
    throw;
  }
}

}  // namespace octachoron
