#pragma once
/// Memory of a process beside its arena: what `plan` and `train` add to the planned buffers.
#include <cstdint>

#include "core/schedule/rank_programs.h"

namespace octachoron {

/// Bytes of this process in memory now, and the most there ever were (VmRSS and VmHWM of /proc/self/status);
/// 0 where the system does not say.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

struct ProcessMemory {
  bool has_arena = true;        ///< the device's memory is that of the process
  std::int64_t buffers = 0;     ///< arena, where it is the process's, and pinned host buffers, planned
  std::int64_t copies = 0;      ///< of masters and moments while they are saved or loaded, where the arena is elsewhere
  std::int64_t libraries = 0;   ///< resident in this process before its buffers, measured
  std::int64_t checkpoint = 0;  ///< copies of a part of a tensor while a checkpoint is written, planned
  std::int64_t total() const { return buffers + copies + libraries + checkpoint; }
};

/// What a save needs on a rank whose largest range has that many elements.
using SaveBytes = std::int64_t (*)(std::int64_t largest_elements);

/// \param libraries resident_bytes() with plugins loaded and before the arena is allocated
ProcessMemory process_memory(const RankPrograms& programs, const Device& device, std::int64_t libraries, SaveBytes save_bytes);

}  // namespace octachoron
