#pragma once
/// Tables that more than one command prints.
#include <string>

#include "core/report/process_memory.h"

namespace octachoron {

/// The operators of the model and the format each runs in, or why not in FP8; layers that agree share a line.
std::string precision_table_text(const std::vector<PrecisionRow>& rows);

/// Planned memory of one rank by class, and of its process.
std::string memory_text(const MemoryPlan& plan, std::int64_t arena_bytes, const ProcessMemory& process);

std::string size_text(double bytes);  ///< "12.3 MiB"

}  // namespace octachoron
