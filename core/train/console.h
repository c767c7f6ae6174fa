#pragma once
/// What rank 0 prints while a run goes on.
#include <string>

#include "core/schedule/rank_programs.h"
#include "core/train/metrics.h"

namespace octachoron {

/// The operators of the model and the format each runs in, or why not in FP8; layers that agree share a line.
std::string precision_table_text(const std::vector<PrecisionRow>& rows);

/// Planned memory of one rank by class.
std::string memory_text(const MemoryPlan& plan, std::int64_t arena_bytes);

/// "step 10/600  loss 3.1234  ..."
std::string progress_line(const StepMetrics& metrics, std::int64_t steps);

std::string size_text(double bytes);  ///< "12.3 MiB"

}  // namespace octachoron
