#include "core/model/quantization_plan.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "core/base/error.h"

namespace octachoron {

namespace {

constexpr std::array<const char*, 3> kPasses = {"fprop", "dgrad", "wgrad"};
constexpr std::array<const char*, 3> kOperands = {"input", "weight", "grad_output"};
/// The operands of the GEMM of each pass.
constexpr std::array<std::array<oct_operand_role, 2>, 3> kOperandsOf = {
    {{OCT_INPUT, OCT_WEIGHT}, {OCT_GRAD_OUTPUT, OCT_WEIGHT}, {OCT_GRAD_OUTPUT, OCT_INPUT}}};

struct Linear {
  std::string module, tensor;
  int layer = -1;
  bool row_parallel = false;
};

std::vector<Linear> linears(const ModelShape& shape) {
  std::vector<Linear> list;
  for (int layer = 0; layer < int(shape.layers); ++layer) {
    const auto add = [&](const char* name, bool row_parallel) {
      const std::string module = text("layers.", layer, ".", name);
      list.push_back({module, module, layer, row_parallel});
    };
    add("attention.qkv", false), add("attention.out", true);
    add(shape.gpt2() ? "mlp.fc1" : "mlp.gate_up", false), add(shape.gpt2() ? "mlp.fc2" : "mlp.down", true);
  }
  list.push_back({"head", shape.tied ? "embedding.token" : "head", -1, false});
  return list;
}

class PlanMaker {
 public:
  PlanMaker(const ModelShape& shape, const Recipe& recipe, bool fall_back)
      : shape_(shape), recipe_(recipe), fall_back_(fall_back) {}

  QuantizationPlan make() {
    for (const Linear& linear : linears(shape_)) add(linear);
    group();
    for (int t = 0; t < int(plan_.tensors.size()); ++t) plan_.counters.push_back({t, plan_.tensors[t].copies});
    for (const ModuleQuantization& module : plan_.modules)
      if (module.weight_quantized() && module.module.ends_with("attention.qkv") && shape_.kv_sharers() > 1)
        plan_.counters.push_back({module.row[OCT_WEIGHT], shape_.kv_sharers()});
    return std::move(plan_);
  }

 private:
  void add(const Linear& linear) {
    ModuleQuantization module{.module = linear.module, .tensor = linear.tensor};
    for (int pass = 0; pass < 3; ++pass) {
      std::array<oct_quant_spec, 2> specs;
      for (int k = 0; k < 2; ++k) specs[k] = ask(linear, oct_pass(pass), kOperandsOf[pass][k]);
      const bool quantized = specs[0].quantized && specs[1].quantized;
      module.quantized[pass] = quantized;
      module.fast_accumulation[pass] = quantized && specs[0].fast_accumulation && specs[1].fast_accumulation;
      const auto format = [](const oct_quant_spec& spec) { return std::string(name(DType(spec.format))); };
      plan_.table.push_back({linear.module, kPasses[pass],
                             quantized ? format(specs[0]) + " x " + format(specs[1])
                                       : name(recipe_.storage(OCT_STORAGE_ACTIVATION)),
                             quantized ? "" : specs[specs[0].quantized ? 1 : 0].reason});
      if (quantized)
        for (int k = 0; k < 2; ++k) use(linear, module, kOperandsOf[pass][k], specs[k]);
    }
    plan_.modules.push_back(std::move(module));
  }

  oct_quant_spec ask(const Linear& linear, oct_pass pass, oct_operand_role operand) const {
    oct_quant_query query{};
    query.struct_size = sizeof query;
    query.layer = linear.layer, query.layers = int(shape_.layers), query.module = linear.module.c_str();
    query.pass = pass, query.operand = operand;
    oct_quant_spec spec = recipe_.spec(query);
    if (spec.quantized && fall_back_ && !misalignment(shape_, linear.module).empty()) {
      spec = {};
      std::snprintf(spec.reason, sizeof spec.reason, "precision.fallback: sides of its products are no multiples of 16");
    }
    return spec;
  }

  // The row of the operand; its other pass must agree, for it is cast once.
  void use(const Linear& linear, ModuleQuantization& module, oct_operand_role operand, oct_quant_spec spec) {
    const std::string name = linear.module + "." + kOperands[operand];
    check(name, spec);
    if (module.row[operand] >= 0) {
      const oct_quant_spec& other = plan_.tensors[module.row[operand]].spec;
      if (other.format != spec.format || other.margin != spec.margin)
        refuse(name, "two formats in two passes, which would be two tensors");
      return;
    }
    const bool outside = linear.row_parallel ? operand == OCT_GRAD_OUTPUT : operand == OCT_INPUT;
    const bool whole = operand != OCT_WEIGHT && outside && !shape_.sequence_parallel;
    if (operand == OCT_WEIGHT && spec.scale_source == OCT_SCALE_CURRENT)  // recorded as the optimiser writes it
      spec.scale_source = OCT_SCALE_HISTORY, spec.history = 1, spec.amax_algorithm = OCT_AMAX_MOST_RECENT;
    module.row[operand] = int(plan_.tensors.size());
    plan_.tensors.push_back({name, spec, whole ? shape_.tp : 1, operand == OCT_WEIGHT});
  }

  void check(const std::string& name, const oct_quant_spec& spec) const {
    if (spec.format != OCT_E4M3 && spec.format != OCT_E5M2) refuse(name, "a format other than e4m3 and e5m2");
    if (spec.granularity != OCT_PER_TENSOR) refuse(name, "a scale for each row or block");
    if (spec.scale_type != OCT_SCALE_F32 || spec.scale_source == OCT_SCALE_CONSTANT)
      refuse(name, "scales that are constant or powers of two");
    if (spec.rounding != OCT_NEAREST_EVEN) refuse(name, "stochastic rounding");
    if (spec.scale_source == OCT_SCALE_HISTORY && (spec.history < 1 || spec.history > 4096))
      refuse(name, text("a history of ", spec.history, " steps"));
    const auto reduced = [&](Axis axis) { return (spec.amax_axes >> int(axis) & 1) == 1; };
    const bool all = spec.scale_source == OCT_SCALE_CURRENT || (reduced(Axis::dp) && reduced(Axis::cp));
    if (!reduced(Axis::tp) || !all)
      fail(ExitStatus::usage, "precision '", recipe_.name(), "' gives parts of '", name,
           "' scales of their own (its amax is not reduced over all ranks that hold a part: tp",
           spec.scale_source == OCT_SCALE_HISTORY ? ", cp, dp" : "", "); choose a recipe that reduces it");
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const {
    fail(ExitStatus::usage, "precision '", recipe_.name(), "' asks for ", what, " for '", name,
         "' (not available in this version: one scale a tensor, nearest even); choose another precision");
  }

  // Rows of one rule lie together, so that one operation rolls them.
  void group() {
    const auto rule = [](const QuantizedTensor& tensor) {
      const oct_quant_spec& s = tensor.spec;
      return std::tuple(!tensor.has_history(), s.format, s.margin, s.amax_algorithm, s.history);
    };
    std::vector<int> order(plan_.tensors.size()), place(plan_.tensors.size());
    for (int t = 0; t < int(order.size()); ++t) order[t] = t;
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return rule(plan_.tensors[a]) < rule(plan_.tensors[b]); });
    std::vector<QuantizedTensor> sorted;
    for (int t = 0; t < int(order.size()); ++t) {
      const QuantizedTensor& tensor = sorted.emplace_back(plan_.tensors[order[t]]);
      place[order[t]] = t;
      if (!tensor.has_history()) continue;
      const bool same = t > 0 && rule(sorted[t - 1]) == rule(tensor);
      if (!same) plan_.groups.push_back({t, 0, tensor.spec});
      ++plan_.groups.back().count;
    }
    plan_.tensors = std::move(sorted);
    for (ModuleQuantization& module : plan_.modules)
      for (int& row : module.row)
        if (row >= 0) row = place[row];
  }

  const ModelShape& shape_;
  const Recipe& recipe_;
  bool fall_back_;
  QuantizationPlan plan_;
};

}  // namespace

int QuantizationPlan::window() const {
  int longest = 1;
  for (const HistoryGroup& group : groups) longest = std::max(longest, group.spec.history);
  return longest;
}

const ModuleQuantization& QuantizationPlan::module(const std::string& name) const {
  const auto found =
      std::find_if(modules.begin(), modules.end(), [&](const ModuleQuantization& m) { return m.module == name; });
  ensure(found != modules.end(), "the model has no module '", name, "'");
  return *found;
}

const ModuleQuantization* QuantizationPlan::module_of_weight(const std::string& tensor) const {
  for (const ModuleQuantization& module : modules)
    if (module.tensor + ".weight" == tensor) return &module;
  return nullptr;
}

bool QuantizationPlan::needs_calibration() const {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const QuantizedTensor& tensor) { return tensor.has_history() && !tensor.is_weight; });
}

int QuantizationPlan::shared_counter(int tensor) const {
  for (std::size_t row = tensors.size(); row < counters.size(); ++row)
    if (counters[row].tensor == tensor) return int(row);
  return tensor;
}

QuantizationPlan quantization_plan(const ModelShape& shape, const Recipe& recipe, bool fall_back) {
  return PlanMaker(shape, recipe, fall_back).make();
}

}  // namespace octachoron
