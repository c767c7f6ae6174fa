/// What a device does not compute is refused before anything runs, with the operand or attribute named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {
namespace {

using testing::HasSubstr;

Operand shaped(DType type, std::int64_t rows, std::int64_t columns) {
  return {type, rows, columns, {}};
}

TEST(DeviceRefusals, NameTheOperand) {
  Rig rig;
  const auto f32 = [](std::int64_t r, std::int64_t c) { return shaped(OCT_F32, r, c); };
  EXPECT_THAT(rig.refusal(describe(OCT_GELU, {f32(3, 4), f32(3, 5)})), HasSubstr("(y) is 3 x 5, not 3 x 4"));
  EXPECT_THAT(rig.refusal(describe(OCT_GELU, {f32(3, 4), shaped(OCT_F64, 3, 4)})),
              HasSubstr("(y) is of type f64, not f32"));
  EXPECT_THAT(
      rig.refusal(describe(OCT_GEMM, {f32(3, 4), f32(5, 2), absent(), absent(), absent(), f32(3, 2)})),
      HasSubstr("depth 5"));
  EXPECT_THAT(
      rig.refusal(describe(OCT_GEMM, {f32(3, 4), f32(4, 2), absent(), absent(), f32(1, 3), f32(3, 2)})),
      HasSubstr("(bias) is 1 x 3, not 1 x 2"));
  EXPECT_THAT(
      rig.refusal(describe(OCT_NORM, {f32(3, 4), f32(1, 4), absent(), f32(3, 4), shaped(OCT_F64, 3, 2)},
                           {.f = {1e-5}})),
      HasSubstr("statistics"));
  EXPECT_THAT(rig.refusal(describe(OCT_LOSS,
                                   {f32(3, 4), shaped(OCT_I32, 1, 3), f32(3, 3), shaped(OCT_F64, 1, 8),
                                    absent(), shaped(OCT_F64, 1, 1)},
                                   {.i = {0, 4, 2, 1}})),
              HasSubstr("statistics"));
  Operand narrow = f32(3, 4);
  narrow.gap = -1;
  EXPECT_THAT(rig.refusal(describe(OCT_GELU, {narrow, f32(3, 4)})), HasSubstr("pitch"));
}

TEST(DeviceRefusals, NameTheAttribute) {
  Rig rig;
  const auto f32 = [](std::int64_t r, std::int64_t c) { return shaped(OCT_F32, r, c); };
  EXPECT_THAT(rig.refusal(describe(OCT_COLUMN_SUM, {f32(3, 4), f32(1, 4)}, {.i = {2}})),
              HasSubstr("i0 is 2"));
  EXPECT_THAT(rig.refusal(describe(OCT_ROPE, {f32(6, 24)}, {.i = {4, 4, 1, 4, 1, 0, 1}, .f = {1e4}})),
              HasSubstr("sequences of 4"));
  EXPECT_THAT(rig.refusal(describe(OCT_ATTENTION, {f32(4, 28), f32(4, 12), f32(4, 3)}, {.i = {4, 3, 2, 4}})),
              HasSubstr("2 key heads do not divide 3 heads"));
}

TEST(DeviceRefusals, CastsAndScales) {
  Rig rig;
  const Operand x = shaped(OCT_F32, 3, 4), scale = shaped(OCT_F32, 1, 1), amax = shaped(OCT_U32, 1, 1),
                row = shaped(OCT_E4M3, 3, 4);
  EXPECT_EQ(rig.refusal(describe(OCT_QUANTIZE, {x, scale, row})), "") << "what comes after may be left out";
  EXPECT_THAT(rig.refusal(describe(OCT_QUANTIZE, {x, scale, absent(), absent(), amax})),
              HasSubstr("neither"));
  EXPECT_THAT(rig.refusal(describe(OCT_QUANTIZE, {x, scale, shaped(OCT_BF16, 3, 4)})),
              HasSubstr("(row) is of type"));
  EXPECT_THAT(rig.refusal(describe(OCT_QUANTIZE, {x, scale, row, shaped(OCT_E5M2, 4, 3)})),
              HasSubstr("(column)"));
  EXPECT_THAT(rig.refusal(describe(OCT_QUANTIZE, {x, scale, row, shaped(OCT_E4M3, 3, 4)})),
              HasSubstr("not 4 x 3"));
  EXPECT_THAT(rig.refusal(describe(OCT_QUANTIZE, {x, scale, row}, {.i = {1, 0, 0, 5}})), HasSubstr("window"));
  EXPECT_THAT(rig.refusal(describe(OCT_AMAX, {shaped(OCT_F32, 1, 4), amax}, {.i = {0, 0, 5, 3, 1}})),
              HasSubstr("i3 is 3"));
  EXPECT_THAT(rig.refusal(describe(OCT_AMAX, {row, amax})), HasSubstr("(x) is of type e4m3"));
  EXPECT_THAT(rig.refusal(describe(OCT_UPDATE_SCALE, {amax, scale, scale})), HasSubstr("format maximum"));
  EXPECT_THAT(rig.refusal(describe(OCT_CURRENT_SCALE, {amax, scale, absent(), scale}, {.f = {448}})),
              HasSubstr("come together"));
  EXPECT_THAT(rig.refusal(describe(OCT_TRANSPOSE, {shaped(OCT_F64, 3, 4), shaped(OCT_F64, 4, 3)})),
              HasSubstr("more than 4 bytes"));
  EXPECT_THAT(rig.refusal(describe(OCT_FILL, {row}, {.f = {1}})), HasSubstr("f0"));
  EXPECT_THAT(rig.refusal(describe(OCT_COPY, {x, row})), HasSubstr("(out) is of type e4m3"));
}

TEST(DeviceRefusals, UnknownOperationsAndTypes) {
  Rig rig;
  oct_operation unknown{};
  unknown.struct_size = sizeof unknown;
  unknown.op = 77;
  EXPECT_THAT(rig.refusal(unknown), HasSubstr("77"));
  unknown.op = OCT_ALL_GATHER;
  EXPECT_NE(rig.refusal(unknown), "");
  EXPECT_NE(rig.refusal(describe(OCT_GELU, {shaped(OCT_I32, 3, 4), shaped(OCT_I32, 3, 4)})), "");
  EXPECT_THAT(rig.refusal(describe(OCT_GELU, {shaped(OCT_F32, 3, 4)})), HasSubstr("1 operands"));
}

TEST(DeviceRefusals, PrepareAndEnqueueRefuseToo) {
  Rig rig;
  const oct_operation bad = describe(OCT_GELU, {shaped(OCT_F32, 3, 4), shaped(OCT_F32, 3, 5)});
  std::int32_t id = -1;
  EXPECT_EQ(rig.table().prepare(rig.device(), &bad, &id), OCT_INVALID_ARGUMENT);
  EXPECT_THAT(rig.last_error(), HasSubstr("(y)"));
  const oct_operation good = describe(OCT_GELU, {shaped(OCT_F32, 3, 4), shaped(OCT_F32, 3, 4)});
  ASSERT_EQ(rig.table().prepare(rig.device(), &good, &id), OCT_OK);
  float x[12] = {};
  void* const pointers[] = {x, nullptr, nullptr};
  EXPECT_EQ(rig.table().enqueue(rig.device(), id, pointers, rig.lane()), OCT_INVALID_ARGUMENT);
  EXPECT_THAT(rig.last_error(), HasSubstr("pointer of y is null"));
  EXPECT_EQ(rig.table().enqueue(rig.device(), 1000, pointers, rig.lane()), OCT_INVALID_ARGUMENT);
}

TEST(DeviceRefusals, CostsOfAGemm) {
  Rig rig;
  const oct_operation gemm = describe(
      OCT_GEMM,
      {shaped(OCT_F32, 8, 16), shaped(OCT_F32, 32, 16), absent(), absent(), absent(), shaped(OCT_F32, 8, 32)},
      {.i = {0, 1}});
  oct_support support{};
  support.struct_size = sizeof support;
  ASSERT_EQ(rig.table().query(rig.device(), &gemm, &support), OCT_OK);
  EXPECT_EQ(support.supported, 1) << support.reason;
  EXPECT_EQ(support.flops, 2. * 8 * 16 * 32);
  EXPECT_EQ(support.bytes, 4. * (8 * 16 + 32 * 16 + 8 * 32));
}

}  // namespace
}  // namespace octachoron::conformance
