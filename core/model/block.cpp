#include "core/model/block.h"

namespace octachoron {

ModelNorm::ModelNorm(const ModelContext& context, std::string name)
    : context_(context), name_(std::move(name)), weight_(context.parameters.weight(name_ + ".weight")) {
  if (context.parameters.has(name_ + ".bias")) bias_ = context.parameters.weight(name_ + ".bias");
}

View ModelNorm::forward(const View& x) {
  x_ = x;
  statistics_ = context_.statistic(name_ + ".statistics", x.rows, 2);
  const View y = context_.activation(name_ + ".output", x.rows, x.columns);
  emit_norm(context_.builder, name_, {x, weight_, bias_, y, statistics_, context_.shape.norm_epsilon});
  return y;
}

View ModelNorm::backward(const View& dy, const View& residual, bool accumulate) const {
  const View dx = context_.activation(name_ + ".dinput", x_.rows, x_.columns);
  const View dbias = bias_.absent() ? View{} : context_.parameters.gradient(name_ + ".bias");
  emit_norm_backward(context_.builder, name_ + ".backward",
                     {dy, x_, weight_, statistics_, residual, dx, context_.parameters.gradient(name_ + ".weight"), dbias,
                      accumulate});
  return dx;
}

Attention::Attention(const ModelContext& context, const std::string& prefix)
    : context_(context),
      name_(prefix + ".attention"),
      qkv_(context, name_ + ".qkv"),
      out_(context, name_ + ".out") {}

View Attention::forward(const View& x) {
  const AttentionShape shape = context_.shape.attention();
  packed_ = qkv_.forward(x);
  if (!context_.shape.gpt2())
    emit_rope(context_.builder, name_ + ".rope", shape, context_.shape.rope_theta, 1, packed_);
  core_ = context_.activation(name_ + ".core", packed_.rows, shape.heads * shape.head_dim);
  lse_ = context_.statistic(name_ + ".log_sum_exp", packed_.rows, shape.heads);
  emit_attention(context_.builder, name_ + ".core", shape, packed_, core_, lse_);
  return out_.forward(core_);
}

View Attention::backward(const View& dy, bool accumulate) const {
  const AttentionShape shape = context_.shape.attention();
  const View dcore = out_.backward(dy, accumulate);
  const View dpacked = context_.activation(name_ + ".qkv.doutput", packed_.rows, packed_.columns);
  emit_attention_backward(context_.builder, name_ + ".core.backward", shape, {packed_, core_, lse_, dcore, dpacked});
  if (!context_.shape.gpt2())
    emit_rope(context_.builder, name_ + ".rope.backward", shape, context_.shape.rope_theta, -1, dpacked);
  return qkv_.backward(dpacked, accumulate);
}

Mlp::Mlp(const ModelContext& context, const std::string& prefix)
    : context_(context),
      name_(prefix + ".mlp"),
      in_(context, name_ + (context.shape.gpt2() ? ".fc1" : ".gate_up")),
      out_(context, name_ + (context.shape.gpt2() ? ".fc2" : ".down")) {}

View Mlp::forward(const View& x) {
  hidden_ = in_.forward(x);
  if (context_.shape.gpt2()) {
    active_ = context_.activation(name_ + ".gelu", hidden_.rows, hidden_.columns);
    emit_gelu(context_.builder, name_ + ".gelu", hidden_, active_);
  } else {
    active_ = context_.activation(name_ + ".swiglu", hidden_.rows, hidden_.columns / 2);
    emit_swiglu(context_.builder, name_ + ".swiglu", hidden_, active_);
  }
  return out_.forward(active_);
}

View Mlp::backward(const View& dy, bool accumulate) const {
  const View dactive = out_.backward(dy, accumulate);
  const View dhidden = context_.activation(name_ + ".dhidden", hidden_.rows, hidden_.columns);
  if (context_.shape.gpt2())
    emit_gelu_backward(context_.builder, name_ + ".gelu.backward", hidden_, dactive, dhidden);
  else
    emit_swiglu_backward(context_.builder, name_ + ".swiglu.backward", hidden_, dactive, dhidden);
  return in_.backward(dhidden, accumulate);
}

TransformerBlock::TransformerBlock(const ModelContext& context, int layer)
    : context_(context),
      name_("layers." + std::to_string(layer)),
      norm1_(context, name_ + ".norm1"),
      norm2_(context, name_ + ".norm2"),
      attention_(context, name_),
      mlp_(context, name_) {}

View TransformerBlock::forward(const View& x) {
  const View attended = attention_.forward(norm1_.forward(x));
  const View middle = context_.activation(name_ + ".middle", x.rows, x.columns);
  emit_add(context_.builder, name_ + ".attention.residual", x, attended, attention_.bias(), middle);

  const View mapped = mlp_.forward(norm2_.forward(middle));
  const View output = context_.activation(name_ + ".output", x.rows, x.columns);
  emit_add(context_.builder, name_ + ".mlp.residual", middle, mapped, mlp_.bias(), output);
  return output;
}

View TransformerBlock::backward(const View& dx, bool accumulate) const {
  const View dmiddle = norm2_.backward(mlp_.backward(dx, accumulate), dx, accumulate);
  return norm1_.backward(attention_.backward(dmiddle, accumulate), dmiddle, accumulate);
}

}  // namespace octachoron
