#pragma once
/// What two observations say: pure functions of plain data.
#include <string>
#include <vector>

#include "core/compare/deviation.h"
#include "core/compare/observation.h"

namespace octachoron {

/// Something that points to a layer and an operand.
struct Finding {
  std::string kind;  ///< "stale weight", "cast", "scale", "product", "amax", "history", "ranks", "nonfinite",
                     ///< "forward", "gradient", "saturation", "flush", "range"
  bool fault = false;    ///< the variant contradicts the contract, whatever the reference does
  std::string module;    ///< "layers.3.mlp.fc1"; of a gradient outside the products its tensor
  std::string operand;   ///< input, weight, grad_output; empty: unknown
  double weight = 0;     ///< how far out of the ordinary; comparable among findings that are no faults
  std::string evidence;  ///< a sentence without a full stop
};

/// Whether an operand of the module is cast to FP8.
bool is_cast(const Observation& seen, const std::string& module);

/// Faults that show in one variant alone, the gravest first.
std::vector<Finding> faults_of(const Observation& variant);

/// Of the residual stream.
struct ForwardError {
  std::string point;
  double relative = 0;  ///< ||x - x0|| / ||x0||
  double added = 0;     ///< what this half of a layer added to it: sqrt(relative^2 - the one before^2)
};
std::vector<ForwardError> forward_errors(const Observation& variant, const Observation& reference);

/// How far a variant is from the reference.
struct Gap {
  double loss = 0;      ///< largest relative difference over the steps
  double gradient = 0;  ///< of all gradients at step 1 together, ||g - g0|| / ||g0||
};
Gap gap(const Observation& variant, const Observation& reference);

/// Whether a gap of what differs by order of summation only is rounding (contract 1.2).
struct Rounding {
  bool is_rounding = true;
  std::string worst;  ///< the largest excess, or the largest deviation: "layers.0.norm1.weight:
                      ///< gradient 3.2e-07 of 5e-06"
  std::string
      where;  ///< the first point of the residual stream beyond the bound, else the tensor; empty: none
};
/// \pre both in FP32 or FP64
Rounding judge_rounding(const Observation& variant, const Observation& reference, const KeyRows& keys);

struct Deviations {
  Gap total;
  std::vector<ForwardError> forward;
  std::vector<GradientError> gradients;  ///< by size
  /// Faults, then what deviates, by weight: the first is the suspect.
  std::vector<Finding> findings;
};
Deviations compare_observations(const Observation& variant, const Observation& reference,
                                const KeyRows& keys);

}  // namespace octachoron
