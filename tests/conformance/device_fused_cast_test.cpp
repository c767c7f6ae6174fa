/// Casts fused into the operation that makes their input, against that operation and OCT_QUANTIZE on the same
/// device: equal bits. Forms that a device does not have are skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/conformance/fused_cast.h"

namespace octachoron::conformance {
namespace {

constexpr oct_op kOperations[] = {OCT_NORM,          OCT_NORM_BACKWARD, OCT_GELU,
                                  OCT_GELU_BACKWARD, OCT_SWIGLU,        OCT_SWIGLU_BACKWARD};
constexpr DType kFormats[] = {OCT_E4M3, OCT_E5M2};
constexpr std::int64_t kShapes[][2] = {{1, 1},   {3, 7},    {17, 48},  {5, 132},  {130, 64},
                                       {2, 768}, {3, 1280}, {2, 4096}, {1, 4100}, {1, 24576}};

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
          had += compare_forms(rig, form);
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
        had += compare_forms(rig, form);
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
