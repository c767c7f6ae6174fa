#pragma once
/// The optimiser sharded over DP x CP (ZeRO-1, Rajbhandari et al. 2020), bucket by bucket: gather the weights
/// from the masters, reduce the gradients to the shards, agree on norm and finite flag, update. Each call
/// emits into the current segment.
#include "core/model/parameter_buffers.h"
#include "core/model/quantizer.h"
#include "core/program/emit.h"

namespace octachoron {

struct OptimizerBuffers {
  View control;  ///< F64 [1,4]: sums of squares (split, replicated over tp), loss sum, unused
  View scalars;  ///< F64 [1,8], of the step
  View result;   ///< F64 [1,4]: norm, factor, flag, mean loss
};

class ShardedOptimizer {
 public:
  ShardedOptimizer(ProgramBuilder& builder, const ParameterBuffers& parameters, const Quantizer& quantizer,
                   OptimizerBuffers buffers)
      : builder_(builder), parameters_(parameters), quantizer_(quantizer), buffers_(buffers) {}

  void gather_weights() const;
  /// Writes what no layer writes of a gradient bucket: the gaps behind its tensors.
  void clear_padding() const;
  /// \param tp_partial gradients of replicated tensors are partial sums over tp (sequence parallelism)
  void reduce_gradients(bool tp_partial) const;
  /// Sums of squares, agreed over the grid; then norm, clip factor, finite flag and loss in `result`.
  void agree(double clip) const;
  /// Also records the amax of weights that are cast, as they are written.
  void update(const OptimizerParameters& optimizer) const;
  /// Mean loss alone, for validation: agreed over DP x CP.
  void agree_loss() const { agree_control(false); }

 private:
  void agree_control(bool with_norm) const;
  void gather_plain(int b) const;
  void gather_cast(int b) const;
  void for_each_tensor(int b, const std::function<void(const ParameterTensor&, const Window&)>& function) const;

  ProgramBuilder& builder_;
  const ParameterBuffers& parameters_;
  const Quantizer& quantizer_;
  OptimizerBuffers buffers_;
};

}  // namespace octachoron
