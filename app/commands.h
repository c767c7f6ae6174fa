#pragma once
/// One function a subcommand: composes what core/ offers, holds no algorithm.
#include "app/command_line.h"
#include "core/config/parameters.h"

namespace octachoron {

/// The parameter file with the command line's overrides, complete and checked against `ranks` (0: not
/// checked). Looks at the data files for their vocabulary; `plan` does without files that are not there.
Parameters read_parameters(const CommandLine& line, int ranks);

ExitStatus run_train(const CommandLine& line);
ExitStatus run_compare(const CommandLine& line);
ExitStatus run_evaluate(const CommandLine& line);
ExitStatus run_plan(const CommandLine& line);
ExitStatus run_doctor();

}  // namespace octachoron
