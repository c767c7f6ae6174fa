#include "core/model/shape.h"

#include "core/base/checked.h"

namespace octachoron {

std::int64_t ModelShape::vocab_rows() const {
  return round_up(ceil_div(vocab, tp), 16);
}

ModelShape model_shape(const Parameters& parameters, const ProcessGrid& grid) {
  const ModelParameters& model = parameters.model;
  ModelShape shape;
  shape.layers = model.layers, shape.hidden = model.hidden, shape.heads = model.heads;
  shape.kv_heads = model.kv_heads, shape.head_dim = model.head_dim, shape.ffn = model.ffn;
  shape.vocab = model.vocab, shape.sequence = model.sequence;
  shape.micro_batch = parameters.batch.micro;
  shape.tp = grid[Axis::tp];
  shape.sequence_parallel = parameters.parallel.sequence_parallel && shape.tp > 1;
  shape.tied = model.tie_embeddings;
  shape.norm_epsilon = model.norm_epsilon;
  shape.family = model.family;
  shape.qkv_bias = model.qkv_bias;
  shape.rope_theta = model.rope_theta;
  return shape;
}

}  // namespace octachoron
