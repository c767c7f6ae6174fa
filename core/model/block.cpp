#include "core/model/block.h"

namespace octachoron {

LayerNorm::LayerNorm(const ModelContext& context, std::string name)
    : context_(context),
      name_(std::move(name)),
      weight_(context.parameters.weight(name_ + ".weight")),
      bias_(context.parameters.weight(name_ + ".bias")) {}

View LayerNorm::forward(const View& x) {
  x_ = x;
  statistics_ = context_.statistic(name_ + ".statistics", x.rows, 2);
  const View y = context_.activation(name_ + ".output", x.rows, x.columns);
  emit_norm(context_.builder, name_, {x, weight_, bias_, y, statistics_, context_.shape.norm_epsilon});
  return y;
}

View LayerNorm::backward(const View& dy, const View& residual, bool accumulate) const {
  const View dx = context_.activation(name_ + ".dinput", x_.rows, x_.columns);
  emit_norm_backward(
      context_.builder, name_ + ".backward",
      {dy, x_, weight_, statistics_, residual, dx, context_.parameters.gradient(name_ + ".weight"),
       context_.parameters.gradient(name_ + ".bias"), accumulate});
  return dx;
}

Attention::Attention(const ModelContext& context, const std::string& prefix, int layer)
    : context_(context),
      name_(prefix + ".attention"),
      qkv_(context, {name_ + ".qkv", layer}, name_ + ".qkv", true),
      out_(context, {name_ + ".out", layer}, name_ + ".out") {}

View Attention::forward(const View& x) {
  const AttentionShape shape = context_.shape.attention();
  packed_ = qkv_.forward(x);
  core_ = context_.activation(name_ + ".core", packed_.rows, shape.heads * shape.head_dim);
  lse_ = context_.statistic(name_ + ".log_sum_exp", packed_.rows, shape.heads);
  emit_attention(context_.builder, name_ + ".core", shape, packed_, core_, lse_);
  return out_.forward(core_);
}

View Attention::backward(const View& dy, bool accumulate) const {
  const View dcore = out_.backward(dy, accumulate);
  const View dpacked = context_.activation(name_ + ".qkv.doutput", packed_.rows, packed_.columns);
  emit_attention_backward(context_.builder, name_ + ".core.backward", context_.shape.attention(),
                          {packed_, core_, lse_, dcore, dpacked});
  return qkv_.backward(dpacked, accumulate);
}

Mlp::Mlp(const ModelContext& context, const std::string& prefix, int layer)
    : context_(context),
      name_(prefix + ".mlp"),
      fc1_(context, {name_ + ".fc1", layer}, name_ + ".fc1", true),
      fc2_(context, {name_ + ".fc2", layer}, name_ + ".fc2") {}

View Mlp::forward(const View& x) {
  hidden_ = fc1_.forward(x);
  active_ = context_.activation(name_ + ".gelu", hidden_.rows, hidden_.columns);
  emit_gelu(context_.builder, name_ + ".gelu", hidden_, active_);
  return fc2_.forward(active_);
}

View Mlp::backward(const View& dy, bool accumulate) const {
  const View dactive = fc2_.backward(dy, accumulate);
  const View dhidden = context_.activation(name_ + ".fc1.doutput", hidden_.rows, hidden_.columns);
  emit_gelu_backward(context_.builder, name_ + ".gelu.backward", hidden_, dactive, dhidden);
  return fc1_.backward(dhidden, accumulate);
}

TransformerBlock::TransformerBlock(const ModelContext& context, int layer)
    : context_(context),
      name_("layers." + std::to_string(layer)),
      norm1_(context, name_ + ".norm1"),
      norm2_(context, name_ + ".norm2"),
      attention_(context, name_, layer),
      mlp_(context, name_, layer) {}

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
