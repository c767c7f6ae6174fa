#pragma once
/// One Transformer block: x + attention(norm1(x)), then + mlp(norm2(x)). What the families differ in stands in the model's
/// shape: GPT-2 has LayerNorm, biases and GELU; Llama has RMSNorm, RoPE and a gated SwiGLU (Touvron et al. 2023).
#include "core/model/linear.h"

namespace octachoron {

/// LayerNorm, or RMSNorm where the model has no bias for it.
class ModelNorm {
 public:
  /// \param name "layers.3.norm1", "norm"
  ModelNorm(const ModelContext& context, std::string name);
  View forward(const View& x);
  /// \param residual gradient that reaches x beside the norm; may be absent
  View backward(const View& dy, const View& residual, bool accumulate) const;

 private:
  const ModelContext& context_;
  std::string name_;
  View weight_, bias_;
  View x_, statistics_;
};

/// Causal self-attention on packed q, k, v; the score matrix is never stored.
class Attention {
 public:
  Attention(const ModelContext& context, const std::string& prefix);
  View forward(const View& x);
  View backward(const View& dy, bool accumulate) const;
  const View& bias() const { return out_.bias(); }

 private:
  const ModelContext& context_;
  std::string name_;
  ColumnParallelLinear qkv_;
  RowParallelLinear out_;
  View packed_, core_, lse_;
};

class Mlp {
 public:
  Mlp(const ModelContext& context, const std::string& prefix);
  View forward(const View& x);
  View backward(const View& dy, bool accumulate) const;
  const View& bias() const { return out_.bias(); }

 private:
  const ModelContext& context_;
  std::string name_;
  ColumnParallelLinear in_;  ///< fc1, or gate_up
  RowParallelLinear out_;    ///< fc2, or down
  View hidden_, active_;
};

class TransformerBlock {
 public:
  TransformerBlock(const ModelContext& context, int layer);
  /// x: residual stream, [local_tokens, H]
  View forward(const View& x);
  View backward(const View& dx, bool accumulate) const;

 private:
  const ModelContext& context_;
  std::string name_;
  ModelNorm norm1_, norm2_;
  Attention attention_;
  Mlp mlp_;
};

}  // namespace octachoron
