#pragma once
/// The optimiser step and the validation step as programs. Everything that trains, evaluates, plans, verifies
/// or draws walks these.
#include "core/model/parameter_set.h"
#include "core/model/quantizer.h"
#include "core/schedule/fuse_casts.h"

namespace octachoron {

/// Names of the buffers the host writes before a step and reads after it.
struct StepBuffers {
  static constexpr const char* tokens = "input.tokens";    ///< host, I32 [1, T], one a micro-batch
  static constexpr const char* targets = "input.targets";  ///< host, I32 [1, T], one a micro-batch
  static constexpr const char* scalars = "input.scalars";  ///< host, F64 [1, 8]: oct_scalar
  static constexpr const char* result =
      "output.result";  ///< host, F64 [1, 4]: norm, clip factor, finite flag, mean loss
};

/// training: gather, micro-batches forward and backward, reduce, agree, update. validation: gather, micro-batches forward,
/// agree on the loss. calibration: as training up to the gradients, which are discarded. All declare the same persistent
/// buffers.
StepProgram build_program(ProgramKind kind, const Parameters& parameters, const Target& target, const ParameterSet& set,
                          const QuantizationPlan& quantization, Casts casts);

}  // namespace octachoron
