#pragma once
/// The programs of this rank, once it is known that all ranks run the same: parameter files and installed
/// versions may differ between nodes, and then collectives would hang or mix what does not belong together.
#include "core/parallel/world.h"
#include "core/schedule/rank_programs.h"

namespace octachoron {

/// Collective. Allocates nothing. \throws Error(usage), alike on all ranks, where a rank would run another
/// program or has other parameters than rank 0; paths, engine.* and run.wall_limit may differ
RankPrograms agreed_programs(const Parameters& parameters, const Target& target, const World& world);

}  // namespace octachoron
