// What contradicts the contract in one variant alone.
#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/text.h"
#include "core/compare/findings.h"

namespace octachoron {

namespace {

Finding fault(const char* kind, const std::string& module, const std::string& operand,
              const std::string& evidence) {
  return {kind, true, module, operand, 0, evidence};
}

std::string at_step(const StepObservation& step) {
  return text(" at step ", step.step);
}

void look_at_weight(const WeightObservation& weight, const StepObservation& step,
                    std::vector<Finding>& faults) {
  if (weight.wrong == 0) return;
  faults.push_back(fault("stale weight", weight.module, "weight",
                         text(weight.wrong, " of ", weight.elements, " elements of the weight", at_step(step),
                              " are not the cast of their masters (they are ", weight.error,
                              " away from them): its cast is stale or wrong")));
}

void look_at_scale(const CastObservation& cast, const StepObservation& step, std::vector<Finding>& faults) {
  if (cast.scale_cast != 0)
    faults.push_back(fault("scale", cast.module, cast.operand,
                           text(cast.tensor, " was cast with the scale ", cast.scale_cast, at_step(step),
                                ", its own is ", cast.scale)));
  if (!cast.product.empty())
    faults.push_back(fault("product", cast.module, cast.operand,
                           text(cast.product, at_step(step), " divides by another scale than that of ",
                                cast.tensor, ", which is ", cast.scale)));
  if (cast.scale_asked != 0 && cast.scale_asked != cast.scale)
    faults.push_back(fault("scale", cast.module, cast.operand,
                           text("the scale of ", cast.tensor, " is ", cast.scale, at_step(step),
                                ", its history asks for ", cast.scale_asked)));
}

// The host looked at the tensors themselves: what the program recorded must be the same to the bit.
void look_at_history(const CastObservation& cast, const StepObservation& step, std::vector<Finding>& faults) {
  const bool is_known = !cast.is_weight || cast.recorded.amax > 0;
  const auto bits = [](float amax) { return std::bit_cast<std::uint32_t>(amax); };
  if (is_known && bits(cast.recorded.amax) != bits(cast.amax_handed))
    faults.push_back(
        fault("amax", cast.module, cast.operand,
              text("the amax of ", cast.tensor, " was recorded as ", cast.recorded.amax, at_step(step),
                   ", but the largest of all ranks and micro-batches is ", cast.amax_handed,
                   ": its history is overwritten by a micro-batch, or a reduction is missing")));
  if (!cast.rolled_once)
    faults.push_back(fault("history", cast.module, cast.operand,
                           text("the history of ", cast.tensor, " did not roll once", at_step(step),
                                ", with the amax of the step in front")));
}

void look_at_ranks(const CastObservation& cast, const StepObservation& step, std::vector<Finding>& faults) {
  if (!cast.same_on_all_ranks)
    faults.push_back(fault("ranks", cast.module, cast.operand,
                           text("scale or history of ", cast.tensor, " differ between ranks after step ",
                                step.step, ": a reduction is missing")));
}

void look_at_cast(const CastObservation& cast, const StepObservation& step, std::vector<Finding>& faults) {
  if (cast.wrong > 0)
    faults.push_back(fault("cast", cast.module, cast.operand,
                           text(cast.wrong, " of ", cast.looked_at, " elements of ", cast.tensor,
                                at_step(step), " are not the cast of what was handed to it")));
}

}  // namespace

std::vector<Finding> faults_of(const Observation& variant) {
  std::vector<Finding> faults;
  for (const StepObservation& step : variant.steps) {
    for (const CastObservation& cast : step.casts) look_at_scale(cast, step, faults);
    for (const WeightObservation& weight : step.weights) look_at_weight(weight, step, faults);
    for (const CastObservation& cast : step.casts) look_at_history(cast, step, faults);
    for (const CastObservation& cast : step.casts) look_at_ranks(cast, step, faults);
    for (const CastObservation& cast : step.casts) look_at_cast(cast, step, faults);
  }
  return faults;
}

}  // namespace octachoron
