#pragma once
/// Operations on two devices with the same numbers.
#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/device_rig.h"

namespace octachoron::gpu {

struct Case {
  std::string name;
  oct_op op;
  std::function<std::vector<conformance::Operand>(DType)> operands;
  conformance::Attributes attributes;
  double depth = 1;  ///< terms of the longest sum: its rounding errors grow with the root
  bool ill = false;  ///< the result is a difference of larger numbers
};

struct RowShape {
  std::int64_t rows, columns, gap = 0;
};

/// Runs each case in FP32 and BF16 on the plugin under test, twice, and on the one that
/// OCTACHORON_REFERENCE_PLUGIN names (else the CPU's): results agree within what the order of sums and one
/// rounding explain, and a rerun has equal bits.
void compare(const std::vector<Case>& cases);

}  // namespace octachoron::gpu
