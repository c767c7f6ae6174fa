#pragma once
/// The model as a whole: what a schedule calls for forward and backward of this rank's layers.
#include <deque>

#include "core/model/ends.h"

namespace octachoron {

class Transformer {
 public:
  explicit Transformer(const ModelContext& context);
  struct Inputs {
    View tokens, targets, scalars, loss;
  };
  void forward(const Inputs& inputs, bool training);
  /// \pre forward(training = true) was emitted
  void backward(bool accumulate) const;

 private:
  VocabParallelEmbedding embedding_;
  std::deque<TransformerBlock> blocks_;
  VocabParallelLoss loss_;
};

}  // namespace octachoron
