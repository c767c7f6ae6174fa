#include <algorithm>

#include "core/base/checked.h"
#include "core/config/validate.h"

namespace octachoron {

namespace {

/// Sizes that cannot be derived stay 0; validate() names them.
void finalize_model(ModelParameters& model, const ParameterOrigins& given, const DataParameters& data,
                    std::int64_t data_vocab) {
  const bool gpt2 = model.family == ModelFamily::gpt2;
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.head_dim == 0 && model.heads > 0 && model.hidden % model.heads == 0) {
    const std::int64_t width = model.hidden / model.heads;
    if (width <= 256 && width % 2 == 0) model.head_dim = width;
  }
  if (model.ffn == 0)
    model.ffn = gpt2 ? checked_product(4, model.hidden)
                     : round_up(ceil_div(checked_product(8, model.hidden), 3), 256);
  if (model.vocab == 0) model.vocab = data_vocab > 0 ? data_vocab : data.format == "text" ? 256 : 0;
  if (!given.contains("model.tie_embeddings")) model.tie_embeddings = gpt2;
  if (!given.contains("model.qkv_bias")) model.qkv_bias = gpt2;
  if (model.rope_theta == 0 && !gpt2) model.rope_theta = 10000;
}

}  // namespace

void finalize(ParsedParameters& parsed, std::int64_t data_vocab) {
  Parameters& p = parsed.values;
  if (p.run.output.empty()) p.run.output = "runs/" + p.run.name;
  if (p.checkpoint.directory.empty()) p.checkpoint.directory = p.run.output + "/checkpoints";
  if (p.backend.comm.empty()) p.backend.comm = p.backend.device == "cuda" ? "nccl" : "mpi";
  finalize_model(p.model, parsed.origins, p.data, data_vocab);
  if (p.optimizer.min_learning_rate == -1) p.optimizer.min_learning_rate = 0.1 * p.optimizer.learning_rate;
  if (p.optimizer.decay_steps == 0) p.optimizer.decay_steps = std::max<std::int64_t>(1, p.run.steps);
}

}  // namespace octachoron
