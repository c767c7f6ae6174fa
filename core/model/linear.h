#pragma once
/// The two linears of tensor parallelism (Megatron-LM, Shoeybi et al. 2019, section 3; sequence parallelism: Korthikanti
/// et al. 2022). y = x W^T + b. Layers emit; they hold views of what the backward pass needs, never data.
#include "core/model/context.h"

namespace octachoron {

/// Where a module stands, for the recipe.
struct ModuleName {
  std::string name;  ///< "layers.3.mlp.fc1", "head"
  int layer = -1;    ///< -1: outside the blocks
};

/// W is split by rows over TP: [out/tp, in]. Input [local_tokens, in], output [tokens, out/tp].
class ColumnParallelLinear {
 public:
  /// \param tensor name of the weight without ".weight"; the head of a tied model reads the token table
  ColumnParallelLinear(const ModelContext& context, ModuleName module, const std::string& tensor);
  View forward(const View& input);
  /// \return gradient of the input, [local_tokens, in]
  View backward(const View& doutput, bool accumulate) const;

 private:
  /// Rows of the weight that lie together: mostly all of them (ParameterTensor).
  struct Part {
    View weight, dweight, bias, dbias;
    std::int64_t first_row = 0;
    std::string suffix;  ///< of labels, where there are several
  };

  const ModelContext& context_;
  ModuleName module_;
  std::vector<Part> parts_;
  std::int64_t rows_ = 0;
  View input_;
};

/// W is split by columns over TP: [out, in/tp]. Input [tokens, in/tp], output [local_tokens, out]. The bias is added by
/// whoever adds the output to the residual, once, after the sum over TP.
class RowParallelLinear {
 public:
  RowParallelLinear(const ModelContext& context, ModuleName module, const std::string& tensor);
  View forward(const View& input);
  View backward(const View& doutput, bool accumulate) const;
  const View& bias() const { return bias_; }  ///< absent in families without

 private:
  const ModelContext& context_;
  ModuleName module_;
  View weight_, dweight_, bias_, dbias_;
  View input_;
};

}  // namespace octachoron
