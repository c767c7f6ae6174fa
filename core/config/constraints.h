#pragma once
/// What is legal together, whatever this version can do. Private to core/config and its tests.
#include "core/config/parameters.h"

namespace octachoron {

/// \param ranks ranks of the launch; 0: not checked
/// \throws Error(usage) naming the numbers and legal ones
void check_constraints(const Parameters& parameters, int ranks);

}  // namespace octachoron
