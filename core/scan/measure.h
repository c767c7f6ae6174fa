#pragma once
/// Some steps of a run at one degree, with their timelines.
#include "core/config/parameters.h"
#include "core/parallel/world.h"
#include "core/scan/degree.h"

namespace octachoron {

/// Collective over `world`, whose size is that of the grid. Runs the first steps of the run from the seed,
/// one that warms up and `steps` that are looked at; writes nothing. \return means over ranks, and the
/// products of this rank \throws what train() throws for these parameters; Error(diverged) where a step is
/// not finite
Observations measure_degree(const Parameters& parameters, const World& world, int steps);

}  // namespace octachoron
