#include "core/model/transformer.h"

namespace octachoron {

Transformer::Transformer(const ModelContext& context) : embedding_(context), loss_(context) {
  for (int layer = 0; layer < int(context.shape.layers); ++layer) blocks_.emplace_back(context, layer);
}

void Transformer::forward(const Inputs& inputs, bool training) {
  View x = embedding_.forward(inputs.tokens);
  for (TransformerBlock& block : blocks_) x = block.forward(x);
  loss_.forward(x, inputs.targets, inputs.scalars, inputs.loss, training);
}

void Transformer::backward(bool accumulate) const {
  View dx = loss_.backward(accumulate);
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) dx = block->backward(dx, accumulate);
  embedding_.backward(dx, accumulate);
}

}  // namespace octachoron
