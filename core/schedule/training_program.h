#pragma once
/// The optimiser step and the validation step as programs. Everything that trains, evaluates, plans, verifies
/// or draws walks these.
#include "core/model/parameter_set.h"
#include "core/program/builder.h"

namespace octachoron {

/// Names of the buffers the host writes before a step and reads after it.
struct StepBuffers {
  static constexpr const char* tokens = "input.tokens";    ///< host, I32 [1, T], one a micro-batch
  static constexpr const char* targets = "input.targets";  ///< host, I32 [1, T], one a micro-batch
  static constexpr const char* scalars = "input.scalars";  ///< host, F64 [1, 8]: oct_scalar
  static constexpr const char* result =
      "output.result";  ///< host, F64 [1, 4]: norm, clip factor, finite flag, mean loss
};

struct BuiltProgram {
  StepProgram program;
  std::vector<PrecisionRow> precision;  ///< the table printed at start
};

/// Gather, micro-batches forward and backward, reduce, agree, update.
BuiltProgram build_training_program(const Parameters& parameters, const Target& target,
                                    const ParameterSet& set);

/// Gather, micro-batches forward, agree on the loss. Declares the same persistent buffers.
BuiltProgram build_validation_program(const Parameters& parameters, const Target& target,
                                      const ParameterSet& set);

}  // namespace octachoron
