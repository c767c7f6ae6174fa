#pragma once
/// Whether programs are the same, as one number.
#include <cstdint>

#include "core/program/program.h"

namespace octachoron {

/// Hash of all a program says to its peers and of itself: lanes, buffers, operations with their views, peers
/// and labels, waits, calls. An attribute that depends on the rank enters as the rule by which it does, and
/// scratch of the device not at all, so ranks of one role have equal digests whatever their place and their
/// cores.
std::uint64_t program_digest(const StepProgram& program);

}  // namespace octachoron
