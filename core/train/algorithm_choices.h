#pragma once
/// Which algorithms a device chose by measuring: other ones give other bits, so a run keeps them (contract 1.3).
#include <string>

#include "core/parallel/world.h"
#include "core/plugin/device.h"
#include "core/schedule/rank_programs.h"

namespace octachoron {

/// Contents of `<output>/tuning.json`, which the device writes; empty if there is none.
std::string read_choices(const std::string& output);
/// Rank 0 takes what a checkpoint keeps into the file, before what stands there. Collective. \throws Error(data) if it cannot be
/// written
void restore_choices(const std::string& output, const std::string& kept, const World& world);

/// Prepares all operations of a rank's programs, rank 0 first, so that other ranks find its choices. Collective.
void prepare_operations(const RankPrograms& programs, Device& device, const ProcessGrid& grid, const World& world);

}  // namespace octachoron
