#pragma once
/// The programs of this rank, once it is known that all ranks run the same: parameter files and installed
/// versions may differ between nodes, and then collectives would hang or mix what does not belong together.
#include "core/data/token_data.h"
#include "core/parallel/world.h"
#include "core/schedule/rank_programs.h"

namespace octachoron {

/// Collective. \throws Error(usage), alike on all ranks, where a rank has other parameters than rank 0;
/// paths, engine.* and run.wall_limit may differ. \param check `--check`, which must not
void agree_on_parameters(const Parameters& parameters, bool check, const World& world);

/// Collective. The files may lie elsewhere on each node, but hold the same: their number of tokens and some
/// samples are compared. \param validation null without \throws Error(data), alike on all ranks
void agree_on_data(const TokenData& training, const TokenData* validation, const World& world);

/// Collective. Allocates nothing. \throws Error(usage), alike on all ranks, where a rank would run another
/// program \param casts as of build_rank_programs()
RankPrograms agreed_programs(const Parameters& parameters, const Target& target, const World& world,
                             Casts casts = Casts::fused);

}  // namespace octachoron
