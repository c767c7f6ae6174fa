#pragma once
/// What is seen of one variant: plain data, complete on rank 0 only.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/checkpoint/assemble.h"
#include "core/model/quantization_plan.h"
#include "core/report/plan_report.h"
#include "core/train/precision_state.h"

namespace octachoron {

/// A tensor that is cast to FP8, in one step, over all ranks. "Handed" is what the host saw of the tensor
/// itself, apart from what the program recorded of it.
struct CastObservation {
  std::string tensor;  ///< "layers.3.mlp.fc1.input"
  std::string module, operand;
  std::string format;
  float format_max = 0;
  int margin = 0;
  bool is_weight = false;
  std::int64_t elements = 0;  ///< as HealthTensor
  PrecisionRecord
      recorded;  ///< by the program; amax of weights: the newest entry of the history before the step
  float amax_handed = 0;  ///< the largest of all micro-batches; of weights: of the masters before the step
  float scale = 0;        ///< of the tensor in this step, micro-batch 0
  float scale_asked = 0;  ///< what the history before the step asks for; 0: it asks for nothing
  float scale_cast = 0;   ///< that the cast used, where it is another
  std::string product;    ///< a product that divided by another scale than the tensor's; empty: none
  std::int64_t looked_at = 0,
               wrong = 0;   ///< elements compared with the cast of what was handed, and those that differ
  double error = 0;         ///< ||cast / scale - handed|| / ||handed||
  bool rolled_once = true;  ///< the history after the step is the one before with the step's amax in front
  bool same_on_all_ranks = true;  ///< scale and history, bit by bit
};

/// A weight as a product read it, against the cast of its master before the step.
struct WeightObservation {
  std::string module;
  std::int64_t elements = 0, wrong = 0;
  double error = 0;  ///< ||weight - master|| / ||master||
};

struct StepObservation {
  std::int64_t step = 0;
  std::vector<CastObservation> casts;  ///< in the order of the quantisation plan
  std::vector<WeightObservation> weights;
};

/// Local shapes of the GEMMs, the same on some ranks.
struct ShapeObservation {
  std::vector<int> ranks;
  std::vector<std::string> gemms;  ///< "layers.0.mlp.fc1.fprop: 64 x 128 x 32, e4m3 x e4m3" (m, n, k)
};

struct Observation {
  std::string name;
  ProcessGrid grid;
  std::string ranks;  ///< the rank map
  std::vector<PrecisionRow> precision;
  bool is_full_precision = false;                              ///< activations are stored in FP32 or FP64
  bool is_double = false;                                      ///< in FP64
  std::vector<double> loss, grad_norm;                         ///< from step 1
  Tensors gradients;                                           ///< of step 1, before clipping
  std::vector<std::pair<std::string, std::uint64_t>> digests;  ///< of the gradients, over their FP32 bits
  /// The residual stream of micro-batch 0 of the first data-parallel rank at step 1, [tokens, hidden]:
  /// "embedding", "layers.0.attention", "layers.0.mlp", ...
  std::vector<std::pair<std::string, Assembled>> forward;
  std::vector<StepObservation> steps;  ///< the first step and the last
  TrafficTable traffic;                ///< of rank 0 in a step
  std::vector<ShapeObservation> shapes;
  std::vector<std::string> alarms;  ///< of health.h
};

}  // namespace octachoron
