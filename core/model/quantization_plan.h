#pragma once
/// Which GEMMs of the model run in FP8, by the recipe's answers, as plain data: the same on all ranks of a stage.
#include <array>
#include <string>
#include <vector>

#include "core/model/shape.h"
#include "core/plugin/recipe.h"

namespace octachoron {

/// One line of the table printed at start: an operator and pass, and the format it runs in or why not in FP8.
struct PrecisionRow {
  std::string module, pass, format, reason;
};

/// A logical tensor with one scale, and a row of its own in the tables of amax, history, scale and counters.
struct QuantizedTensor {
  std::string name;         ///< "layers.3.mlp.fc1.input": its dataset in a checkpoint is called so
  oct_quant_spec spec{};    ///< of weights in a recipe of current scaling: history of one step, most recent
  int copies = 1;           ///< TP ranks that hold and count the same elements
  bool is_weight = false;

  DType format() const { return DType(spec.format); }
  bool has_history() const { return spec.scale_source == OCT_SCALE_HISTORY; }
};

/// A linear module: y = x W^T.
struct ModuleQuantization {
  std::string module;  ///< "layers.3.mlp.fc1", "head"
  std::string tensor;  ///< of its weight, without ".weight": "embedding.token" for the head of a tied model
  std::array<bool, 3> quantized{};         ///< by oct_pass: the GEMM runs in FP8
  std::array<bool, 3> fast_accumulation{};  ///< by oct_pass
  std::array<int, 3> row{-1, -1, -1};      ///< by oct_operand_role, of QuantizationPlan::tensors; -1: never quantised

  bool any() const { return quantized[0] || quantized[1] || quantized[2]; }
  bool weight_quantized() const { return quantized[OCT_FPROP] || quantized[OCT_DGRAD]; }
  bool weight_plain() const { return !quantized[OCT_FPROP] || !quantized[OCT_DGRAD]; }
};

/// Rows whose scales follow from their histories by one rule.
struct HistoryGroup {
  int first = 0, count = 0;
  oct_quant_spec spec{};
};

/// A row of the table of counters: that of the tensor, or one more where parts of it are held by several ranks.
struct CounterRow {
  int tensor = 0;
  int copies = 1;
};

struct QuantizationPlan {
  std::vector<ModuleQuantization> modules;
  std::vector<QuantizedTensor> tensors;  ///< those of one history group together
  std::vector<HistoryGroup> groups;
  std::vector<CounterRow> counters;  ///< first one for each tensor, then shared parts of weights
  std::vector<PrecisionRow> table;

  bool empty() const { return tensors.empty(); }
  int window() const;  ///< steps of the longest history
  const ModuleQuantization& module(const std::string& name) const;
  /// The module that multiplies with this weight tensor (a name with ".weight"); null if none does.
  const ModuleQuantization* module_of_weight(const std::string& tensor) const;
  /// Tensors other than weights whose scales come from a history: what a calibration is for.
  bool needs_calibration() const;
  int shared_counter(int tensor) const;  ///< row of CounterRow for the shared part of a weight
};

/// Asks the recipe for every operand of every GEMM. \throws Error(usage) for what no program can express, and for an amax
/// that is not reduced over all ranks that hold a part of the tensor (contract 1.5, 1.6)
/// \param fall_back modules with sizes that FP8 products cannot have stay in the storage type (precision.fallback)
QuantizationPlan quantization_plan(const ModelShape& shape, const Recipe& recipe, bool fall_back);

/// Why the sizes of a module do not suit FP8, in the words of a refusal; empty if they do.
std::string misalignment(const ModelShape& shape, const std::string& module);

/// FP8 GEMMs need multiples of 16 after all sharding (contract 1.10). \throws Error(usage) naming the parameter, the three
/// GEMMs and the nearest legal values
void refuse_misaligned(const QuantizationPlan& plan, const ModelShape& shape);

}  // namespace octachoron
