#pragma once
/// Waits derived from hazards: read after write, write after read, write after write, on the bytes of
/// buffers.
#include "core/program/program.h"

namespace octachoron {

struct MissingWait {
  int call = 0;
  Wait wait;
};

/// The fewest waits that, added to those present, order all conflicting accesses as program order does.
/// O(issues x lanes^2 + accesses x live ranges of a buffer).
std::vector<MissingWait> missing_waits(const StepProgram& program, std::span<const Call> calls);

/// First inside each segment on its own, then between calls. To be called after the passes; replaces what was
/// there.
void derive_waits(StepProgram& program);

}  // namespace octachoron
