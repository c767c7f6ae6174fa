#pragma once
/// The ends of the model: token and position embedding, and final norm, head and loss, all
/// vocabulary-parallel.
#include "core/model/block.h"

namespace octachoron {

/// Tokens [1, T] -> residual stream [local_tokens, H]; GPT-2 adds learned positions.
class VocabParallelEmbedding {
 public:
  explicit VocabParallelEmbedding(const ModelContext& context);
  View forward(const View& tokens);
  void backward(const View& dx, bool accumulate) const;

 private:
  PositionShape position() const;
  const ModelContext& context_;
  View tokens_;
};

/// Residual stream -> loss, summed into `loss`. In training the logits become their gradient in place.
class VocabParallelLoss {
 public:
  explicit VocabParallelLoss(const ModelContext& context);
  /// \param targets [1, T], -1 ignored  \param scalars of the step  \param loss F64 [1,1], added to
  void forward(const View& x, const View& targets, const View& scalars, const View& loss, bool training);
  View backward(bool accumulate) const;

 private:
  const ModelContext& context_;
  ModelNorm norm_;
  ColumnParallelLinear head_;
  View dlogits_;
};

}  // namespace octachoron
