#pragma once
/// Arena planning: an address for every buffer instance before anything runs.
#include <array>

#include "core/program/program.h"

namespace octachoron {

/// Address of each buffer instance in its memory (arena, or pinned memory for host buffers); -1 where it is
/// not used.
using Placement = std::vector<std::int64_t>;

inline constexpr std::int64_t kAlignment = 256;  ///< bytes, of each instance

struct MemoryPlan {
  Placement placement;
  std::int64_t arena_bytes = 0;  ///< highest byte of the arena
  std::int64_t host_bytes = 0;   ///< of pinned memory
  std::int64_t live_bytes = 0;   ///< largest sum of buffers live at one point of program order: a lower bound
  std::int64_t apart_bytes = 0;  ///< what the arena would be without sharing
  /// Bytes by class at the point where live_bytes is reached; host beside them.
  std::array<std::int64_t, kMemoryClasses> by_class{};
};

/// Persistent buffers come first, in the order they were declared, so programs that declare the same ones
/// agree on them. Two values share bytes only if all accesses to one happen before all accesses to the other,
/// whatever the timing: that needs no further wait. A value begins at a write of its whole buffer that does
/// not read it; partial writes extend it. To be called after derive_waits.
MemoryPlan plan_memory(const StepProgram& program);

}  // namespace octachoron
