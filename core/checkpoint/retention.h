#pragma once
/// Which older files go once a new checkpoint is durable.
#include <cstdint>
#include <string>

namespace octachoron {

/// Of the complete checkpoints of run_id older than `step`, keeps the newest keep - 1 and removes the rest,
/// and leftovers
/// (`step-*.h5.tmp`) of steps up to `step`. Newer ones, those of other runs and damaged ones stay. keep 0
/// keeps all. \returns lines on what could not be removed
std::string remove_older(const std::string& directory, const std::string& run_id, std::int64_t step,
                         std::int64_t keep);

}  // namespace octachoron
