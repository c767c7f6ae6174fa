#pragma once
/// An operation with a cast of its result, and the same as two operations.
#include <string>
#include <vector>

#include "core/plugin/fused_cast.h"
#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {

struct Form {
  oct_op op;
  DType type, format;
  std::int64_t rows, columns, gap = 0;
  double scale = 1.7;
  bool special = false;  ///< infinities and NaN among the elements
};

std::string describe_form(const Form& form);
Attributes attributes(const Form& form);
/// The operands of the operation itself; what it writes is zero.
std::vector<Operand> operands(const Form& form);
/// Those of its cast behind them.
std::vector<Operand> with_cast(const Form& form, std::vector<Operand> own);

/// Fails the test where values differ: NaN is NaN.
void expect_same(const Operand& actual, const Operand& expected, const char* what);
/// Runs the form with its result kept and not, and OCT_QUANTIZE after the plain operation, on the same
/// device: fails the test where a bit differs. \returns whether the device has the form
bool compare_forms(Rig& rig, const Form& form);

}  // namespace octachoron::conformance
