#pragma once
/// What a run prints of itself before it reads its state: parameters, ranks, plugins, precision, memory.
#include <string>
#include <vector>

#include "core/engine/backend.h"
#include "core/train/session.h"

namespace octachoron {

/// Lines, the last without its end. \param hosts of all ranks
std::string start_text(const Parameters& parameters, const ProcessGrid& grid, const std::vector<std::string>& hosts,
                       Backend& backend, const TrainingSession& session);

}  // namespace octachoron
