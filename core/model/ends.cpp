#include "core/model/ends.h"

namespace octachoron {

namespace {
constexpr const char* kToken = "embedding.token.weight";
constexpr const char* kPosition = "embedding.position.weight";
}  // namespace

VocabParallelEmbedding::VocabParallelEmbedding(const ModelContext& context) : context_(context) {}

PositionShape VocabParallelEmbedding::position() const {
  const ModelShape& shape = context_.shape;
  return {shape.sequence, shape.sequence_parallel ? shape.local_tokens() : 0};
}

View VocabParallelEmbedding::forward(const View& tokens) {
  tokens_ = tokens;
  const ModelShape& shape = context_.shape;
  const View looked_up = context_.activation("embedding.token.output", shape.tokens(), shape.hidden);
  emit_embedding(context_.builder, "embedding.token", shape.vocabulary_part(), tokens,
                 context_.parameters.weight(kToken), looked_up);
  const View local = context_.reduce("embedding.token.output", looked_up);
  if (!context_.parameters.has(kPosition)) return local;
  const View x = context_.activation("embedding.output", local.rows, local.columns);
  emit_position(context_.builder, "embedding.position", position(), local, context_.parameters.weight(kPosition), x);
  return x;
}

void VocabParallelEmbedding::backward(const View& dx, bool accumulate) const {
  const View gathered = context_.gather("embedding.doutput", dx);
  if (context_.parameters.has(kPosition))
    emit_position_backward(context_.builder, "embedding.position.backward", position(), dx,
                           context_.parameters.gradient(kPosition), accumulate);
  // The head of a tied model has written this gradient before.
  emit_embedding_backward(context_.builder, "embedding.token.backward", context_.shape.vocabulary_part(),
                          tokens_, gathered, context_.parameters.gradient(kToken),
                          accumulate || context_.shape.tied);
}

VocabParallelLoss::VocabParallelLoss(const ModelContext& context)
    : context_(context),
      norm_(context, "norm"),
      head_(context, "head") {}

void VocabParallelLoss::forward(const View& x, const View& targets, const View& scalars, const View& loss,
                                bool training) {
  const VocabularyPart part = context_.shape.vocabulary_part();
  ProgramBuilder& builder = context_.builder;
  const View logits = head_.forward(norm_.forward(x));
  const View statistics = context_.statistic("loss.statistics", logits.rows, 3);
  emit_loss_statistics(builder, "loss.statistics", part, logits, targets, statistics);
  const View all =
      builder.all_gather({Axis::tp, "activation"}, builder.lane("tp"), "loss.statistics", statistics);
  dlogits_ = training ? logits : View{};
  emit_loss(builder, "loss", part, {logits, targets, all, scalars, dlogits_, loss});
}

View VocabParallelLoss::backward(bool accumulate) const {
  return norm_.backward(head_.backward(dlogits_, accumulate), {}, accumulate);
}

}  // namespace octachoron
