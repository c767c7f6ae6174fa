#pragma once
/// A command that runs on all ranks of a launch.
#include <functional>

#include "core/base/error.h"
#include "core/parallel/world.h"

namespace octachoron {

/// Starts MPI and calls the command on every rank. Errors are printed once: those that all ranks share by the
/// lowest of them; a rank that fails alone ends the launch.
ExitStatus run_on_ranks(const std::function<ExitStatus(const World&)>& command);

}  // namespace octachoron
