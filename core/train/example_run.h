#pragma once
/// The run of an example (parameter example.pattern): the same engine, plugins and timeline as of a training
/// run, on a program of five operations.
#include "core/base/error.h"
#include "core/config/parameters.h"
#include "core/parallel/world.h"

namespace octachoron {

/// Executes the program run.steps times and prints the accounting of each and the timeline of the last;
/// trace.steps writes files. Collective. \return done \throws Error, alike on all ranks where it concerns all
ExitStatus run_example(const Parameters& parameters, const World& world);

}  // namespace octachoron
