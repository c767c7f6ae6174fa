/// Casts fused into the operation that makes their input, against that operation and OCT_QUANTIZE on the same
/// device: equal bits. Forms that a device does not have are skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/plugin/fused_cast.h"
#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {
namespace {

constexpr oct_op kOperations[] = {OCT_NORM,          OCT_NORM_BACKWARD, OCT_GELU,
                                  OCT_GELU_BACKWARD, OCT_SWIGLU,        OCT_SWIGLU_BACKWARD};
constexpr DType kFormats[] = {OCT_E4M3, OCT_E5M2};
constexpr std::int64_t kShapes[][2] = {{1, 1},   {3, 7},    {17, 48},  {5, 132},  {130, 64},
                                       {2, 768}, {3, 1280}, {2, 4096}, {1, 4100}, {1, 24576}};

struct Form {
  oct_op op;
  DType type, format;
  std::int64_t rows, columns, gap = 0;
  double scale = 1.7;
  bool special = false;  ///< infinities and NaN among the elements
};

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

/// The operands of the operation itself; what it writes is zero.
std::vector<Operand> operands(const Form& form) {
  unsigned seed = 1;
  const auto matrix = [&](std::int64_t columns, double scale = 2) {
    Operand x = random(form.type, form.rows, columns, seed++, scale);
    const double values[] = {0, -0.0, 1e30, -1e30, 1e-30, NAN, INFINITY, -INFINITY};
    for (std::size_t k = 0; k < x.values.size() && form.special; k += 37)
      x.values[k] = rounded(form.type, values[k / 37 % 8]);
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

void expect_same(const Operand& actual, const Operand& expected, const char* what) {
  ASSERT_EQ(actual.values.size(), expected.values.size()) << what;
  for (std::size_t k = 0; k < actual.values.size(); ++k) {
    const double a = actual.values[k], e = expected.values[k];
    ASSERT_TRUE(std::isnan(a) ? std::isnan(e) : a == e && std::signbit(a) == std::signbit(e))
        << what << ", element " << k << ": " << a << ", not " << e;
  }
}

/// \returns whether the device has the form
bool compare(Rig& rig, const Form& form) {
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

class DeviceFusedCast : public testing::TestWithParam<oct_op> {};

TEST_P(DeviceFusedCast, IsTheCastOfTheResult) {
  Rig rig;
  int had = 0;
  for (const DType type : kTypes)
    for (const DType format : kFormats)
      for (const auto& shape : kShapes)
        for (const std::int64_t gap : {0, 3, 16}) {
          if (gap > 0 && shape[1] > 1000) continue;
          const Form form{GetParam(), type, format, shape[0], shape[1], gap};
          SCOPED_TRACE(describe_form(form));
          had += compare(rig, form);
          if (HasFatalFailure()) return;
        }
  if (had == 0) GTEST_SKIP() << "this device has no such form";
}

TEST_P(DeviceFusedCast, CountsWhatDoesNotFit) {
  Rig rig;
  int had = 0;
  for (const DType type : kTypes)
    for (const DType format : kFormats)
      for (const double scale : {1e-3, 1., 300., 1e30}) {
        const Form form{GetParam(), type, format, 7, 1280, 0, scale, true};
        SCOPED_TRACE(describe_form(form));
        had += compare(rig, form);
        if (HasFatalFailure()) return;
      }
  if (had == 0) GTEST_SKIP() << "this device has no such form";
}

TEST_P(DeviceFusedCast, MayLeaveOutWhatIsRecorded) {
  Rig rig;
  const Form form{GetParam(), OCT_BF16, OCT_E4M3, 6, 256};
  const FusedCast cast = fused_cast(form.op);
  std::vector<Operand> all = with_cast(form, operands(form)), bare = all;
  bare[std::size_t(cast.amax())] = bare[std::size_t(cast.counters())] = absent();
  if (!rig.refusal(describe(form.op, bare, attributes(form))).empty())
    GTEST_SKIP() << "this device has no such form";
  rig.run(form.op, all, attributes(form));
  rig.run(form.op, bare, attributes(form));
  expect_same(bare[std::size_t(cast.row())], all[std::size_t(cast.row())], "codes");
}

TEST_P(DeviceFusedCast, RefusesWhatDoesNotFit) {
  const Rig rig;
  const Form form{GetParam(), OCT_BF16, OCT_E4M3, 6, 32};
  const FusedCast cast = fused_cast(form.op);
  const std::vector<Operand> all = with_cast(form, operands(form));
  const auto refusal = [&](const std::function<void(std::vector<Operand>&)>& change) {
    std::vector<Operand> changed = all;
    change(changed);
    return rig.refusal(describe(form.op, changed, attributes(form)));
  };
  EXPECT_THAT(refusal([](auto& o) { o.pop_back(); }), testing::HasSubstr("operands"));
  EXPECT_THAT(refusal([&](auto& o) { o[std::size_t(cast.scale())] = absent(); }),
              testing::HasSubstr("(scale)"));
  EXPECT_THAT(refusal([&](auto& o) { o[std::size_t(cast.row())].columns += 16; }),
              testing::HasSubstr("(row)"));
  EXPECT_THAT(refusal([&](auto& o) { o[std::size_t(cast.row())].type = OCT_BF16; }),
              testing::HasSubstr("(row)"));
  EXPECT_THAT(refusal([&](auto& o) { o[std::size_t(cast.amax())].type = OCT_F32; }),
              testing::HasSubstr("(amax)"));
  EXPECT_THAT(refusal([&](auto& o) { o[std::size_t(cast.counters())].columns = 2; }),
              testing::HasSubstr("(counters)"));
  std::vector<Operand> plain = operands(form);
  plain[std::size_t(cast.wide)] = absent();
  EXPECT_NE(rig.refusal(describe(form.op, plain, attributes(form))), "") << "nothing to write";
}

TEST_P(DeviceFusedCast, ThreadsDoNotChangeBits) {
  const Form form{GetParam(), OCT_BF16, OCT_E4M3, 301, 528};
  std::vector<std::vector<Operand>> results;
  for (const int threads : {1, 2, 3}) {
    Rig rig(threads);
    results.push_back(with_cast(form, operands(form)));
    if (!rig.refusal(describe(form.op, results.back(), attributes(form))).empty())
      GTEST_SKIP() << "this device has no such form";
    rig.run(form.op, results.back(), attributes(form));
  }
  for (const auto& all : results)
    for (std::size_t k = 0; k < all.size(); ++k)
      if (all[k].rows > 0) expect_same(all[k], results[0][k], "an operand");
}

INSTANTIATE_TEST_SUITE_P(Operations, DeviceFusedCast, testing::ValuesIn(kOperations));

}  // namespace
}  // namespace octachoron::conformance
