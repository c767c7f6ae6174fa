#pragma once
/// Passes inside segments: functions from program to program that run before waits are derived and know
/// nothing of them.
#include "core/program/program.h"

namespace octachoron {

/// Whether the two operations may change places.
bool commute(const Operation& a, const Operation& b);

/// Moves weight-gradient work (GEMMs into gradient buffers) behind the start of the next collective of lane
/// `tp` that it does not depend on, so that it runs while the collective travels. Order and results of each
/// operation stay the same. \return operations moved
int overlap_weight_gradients(StepProgram& program);

}  // namespace octachoron
