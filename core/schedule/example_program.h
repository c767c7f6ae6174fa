#pragma once
/// The reference pattern of overlap as a program of its own, and its two counter-examples (parameter
/// example.pattern). All three run the same operations: a column-parallel linear, the all-gather of its
/// result over tp, a second linear, and the linear that consumes the gathered rows. They differ in what the
/// second linear reads and in the order of the last two, hence in what stands between the start of the gather
/// and the wait for it.
#include "core/config/parameters.h"
#include "core/program/builder.h"

namespace octachoron {

/// Labels of its operations.
struct ExampleLabels {
  static constexpr const char* linear = "column_parallel_linear";
  static constexpr const char* gather = "gather";
  static constexpr const char* second = "second_linear";
  static constexpr const char* consumer = "consumer";
  static constexpr const char* sum = "sum";
};

/// Matrices have model.hidden features and batch.micro x model.sequence tokens; grid.tp ranks share the first
/// linear. \pre example.pattern is not none, model.hidden is a multiple of grid.tp \throws Error(usage) if
/// the device cannot run it
StepProgram build_example(const Parameters& parameters, const Target& target);

}  // namespace octachoron
