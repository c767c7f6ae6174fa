#include "tests/conformance/fused_cast.h"

#include <gtest/gtest.h>

#include <cmath>

namespace octachoron::conformance {

std::string describe_form(const Form& form) {
  return testing::PrintToString(int(form.op)) + " of " + name(form.type) + " to " + name(form.format) + ", " +
         std::to_string(form.rows) + " x " + std::to_string(form.columns) + " gap " +
         std::to_string(form.gap);
}

Attributes attributes(const Form& form) {
  switch (form.op) {
    case OCT_NORM:
      return {.i = {form.rows % 2}, .f = {1e-5}};
    case OCT_NORM_BACKWARD:
      return {.i = {form.rows % 2, 0}};
    default:
      return {};
  }
}

std::vector<Operand> operands(const Form& form) {
  unsigned seed = 1;
  const auto matrix = [&](std::int64_t columns, double scale = 2) {
    Operand x = random(form.type, form.rows, columns, seed++, scale);
    const double values[] = {0, -0.0, 1e30, -1e30, 1e-30, NAN, INFINITY, -INFINITY};
    // A norm makes NaN of the whole row.
    const bool is_norm = form.op == OCT_NORM || form.op == OCT_NORM_BACKWARD;
    const std::size_t end = !form.special ? 0 : is_norm ? std::size_t(columns) : x.values.size();
    for (std::size_t k = 0; k < end; k += 37) x.values[k] = rounded(form.type, values[k / 37 % 8]);
    return with_gap(x, form.gap);
  };
  const auto row = [&] { return random(form.type, 1, form.columns, seed++); };
  const auto result = [&](std::int64_t columns) {
    return with_gap(zeros(form.type, form.rows, columns), form.gap);
  };
  const std::int64_t n = form.columns;
  Operand statistics = zeros(wide(form.type), form.rows, 2);
  switch (form.op) {
    case OCT_NORM:
      return {matrix(n), row(), form.rows % 3 == 0 ? absent() : row(), result(n), statistics};
    case OCT_NORM_BACKWARD:
      for (std::int64_t r = 0; r < form.rows; ++r) statistics.values[std::size_t(2 * r + 1)] = 0.5;
      return {matrix(n),
              matrix(n),
              row(),
              statistics,
              form.rows % 3 == 0 ? absent() : matrix(n),
              result(n),
              zeros(wide(form.type), 1, n),
              form.rows % 2 == 1 ? absent() : zeros(wide(form.type), 1, n)};
    case OCT_GELU:
      return {matrix(n), result(n)};
    case OCT_GELU_BACKWARD:
      return {matrix(n), matrix(n), result(n)};
    case OCT_SWIGLU:
      return {matrix(2 * n), result(n)};
    default:
      return {matrix(2 * n), matrix(n), result(2 * n)};
  }
}

std::vector<Operand> with_cast(const Form& form, std::vector<Operand> own) {
  const std::int64_t columns = own[std::size_t(fused_cast(form.op).wide)].columns;
  own.push_back(filled(OCT_F32, 1, 1, {form.scale}));
  own.push_back(with_gap(zeros(form.format, form.rows, columns), form.gap));
  own.push_back(filled(OCT_U32, 1, 1, {5}));
  own.push_back(filled(OCT_U64, 1, 3, {1, 2, 3}));
  return own;
}

// Which NaN a result is does not survive its way through the rig: an amax of NaN is any of them.
bool is_nan(double value, DType type) {
  return std::isnan(value) || (type == OCT_U32 && value > double(0x7f800000));
}

void expect_same(const Operand& actual, const Operand& expected, const char* what) {
  ASSERT_EQ(actual.values.size(), expected.values.size()) << what;
  for (std::size_t k = 0; k < actual.values.size(); ++k) {
    const double a = actual.values[k], e = expected.values[k];
    ASSERT_TRUE(is_nan(a, actual.type) ? is_nan(e, expected.type) : a == e && std::signbit(a) == std::signbit(e))
        << what << ", element " << k << ": " << a << ", not " << e;
  }
}

bool compare_forms(Rig& rig, const Form& form) {
  const FusedCast cast = fused_cast(form.op);
  const auto at = [](const std::vector<Operand>& all, int k) -> const Operand& {
    return all[std::size_t(k)];
  };
  std::vector<Operand> apart = operands(form), fused = with_cast(form, apart), dropped = fused;
  dropped[std::size_t(cast.wide)] = absent();
  if (!rig.refusal(describe(form.op, fused, attributes(form))).empty()) return false;
  rig.run(form.op, apart, attributes(form));
  std::vector<Operand> quantize = {at(apart, cast.wide),   at(fused, cast.scale()),
                                   at(fused, cast.row()),  absent(),
                                   at(fused, cast.amax()), at(fused, cast.counters())};
  rig.run(OCT_QUANTIZE, quantize);
  const auto expect = [&](const std::vector<Operand>& all) {
    for (int k = 0; k < cast.first; ++k)
      if (at(all, k).rows > 0) expect_same(at(all, k), at(apart, k), "an operand of its own");
    expect_same(at(all, cast.row()), quantize[2], "codes");
    expect_same(at(all, cast.amax()), quantize[4], "amax");
    expect_same(at(all, cast.counters()), quantize[5], "counters");
  };
  rig.run(form.op, fused, attributes(form));
  expect(fused);
  if (!rig.refusal(describe(form.op, dropped, attributes(form))).empty()) return true;
  rig.run(form.op, dropped, attributes(form));
  expect(dropped);
  return true;
}

}  // namespace octachoron::conformance
