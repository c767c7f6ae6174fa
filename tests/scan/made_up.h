#pragma once
/// Degrees with times that a test chose.
#include "core/scan/degree.h"

namespace octachoron::scan_test {

/// Milliseconds of a step; they add up to it.
struct Terms {
  double gemm = 0, other = 0, exposed = 0, skew = 0, host = 0;
};

/// One node of eight cores, ranks of one thread, two per cent of noise; one all-gather over tp that is hidden
/// by half, one kind of product of 1e9 / degree operations.
Degree made_up(int degree, const Terms& terms);

}  // namespace octachoron::scan_test
