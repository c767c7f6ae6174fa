#pragma once
/// `plan` of an example (parameter example.pattern): the verifier's word, and what may run beside each
/// transfer.
#include <string>
#include <vector>

#include "core/schedule/example_program.h"
#include "core/schedule/rank_programs.h"

namespace octachoron {

struct ExampleReport {
  ProcessGrid grid;
  PlannedProgram planned;
  std::vector<std::string> problems;  ///< of the verifier; empty: free of races and deadlocks
};

/// Builds, plans and verifies the program on the whole grid.
ExampleReport plan_example(const Parameters& parameters, const Target& target);

std::string example_text(const ExampleReport& report);
std::string example_json(const ExampleReport& report);

/// For each communication: from which operation to which its window reaches, and what in it is independent.
std::string windows_text(const StepProgram& program);

}  // namespace octachoron
