#pragma once
/// The two linears of tensor parallelism (Megatron-LM, Shoeybi et al. 2019, section 3; sequence parallelism: Korthikanti
/// et al. 2022). y = x W^T + b. Layers emit; they hold views of what the backward pass needs, never data.
#include "core/model/context.h"

namespace octachoron {

/// A tensor that GEMMs read: as it is, cast to FP8, or both, as the recipe wants for the passes that read it.
struct LinearOperand {
  View plain;
  Quantized cast;
  Quantized in(bool quantized) const { return quantized ? cast : Quantized{plain, {}}; }
};

/// W is split by rows over TP: [out/tp, in]. Input [local_tokens, in], output [tokens, out/tp].
class ColumnParallelLinear {
 public:
  /// \param module "layers.3.mlp.fc1", "head"; its weight is that of the quantisation plan
  ColumnParallelLinear(const ModelContext& context, const std::string& module);
  View forward(const View& input);
  /// \return gradient of the input, [local_tokens, in]
  View backward(const View& doutput, bool accumulate) const;

 private:
  /// Rows of the weight that lie together: mostly all of them (ParameterTensor).
  struct Part {
    LinearOperand weight;
    View dweight, bias, dbias;
    std::int64_t first_row = 0, rows = 0;
    std::string suffix;  ///< of labels, where there are several
  };

  const ModelContext& context_;
  const ModuleQuantization& module_;
  std::vector<Part> parts_;
  std::int64_t rows_ = 0;
  LinearOperand input_;
};

/// W is split by columns over TP: [out, in/tp]. Input [tokens, in/tp], output [local_tokens, out]. The bias is added by
/// whoever adds the output to the residual, once, after the sum over TP.
class RowParallelLinear {
 public:
  RowParallelLinear(const ModelContext& context, const std::string& module);
  View forward(const View& input);
  View backward(const View& doutput, bool accumulate) const;
  const View& bias() const { return bias_; }  ///< absent in families without

 private:
  const ModelContext& context_;
  const ModuleQuantization& module_;
  LinearOperand weight_;
  View dweight_, bias_, dbias_;
  LinearOperand input_;
};

}  // namespace octachoron
