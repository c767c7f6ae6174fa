/// Casts to FP8 and transposition, bit by bit.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/conformance/fused_cast.h"
#include "tests/gpu/compare.h"

namespace octachoron::gpu {
namespace {

using namespace conformance;

/// Tiles of 128 x 64 or 128, whole and not; rows and columns alone; numbers that vanish, saturate or are
/// none.
std::vector<Case> cast_cases() {
  std::vector<Case> cases;
  for (const auto& [rows, columns, gap] : {RowShape{256, 192}, RowShape{128, 64, 8}, RowShape{304, 208},
                                           RowShape{61, 770}, RowShape{33, 17, 3}}) {
    const std::string size =
        " " + std::to_string(rows) + " x " + std::to_string(columns) + " + " + std::to_string(gap);
    for (const DType format : {OCT_E4M3, OCT_E5M2}) {
      for (const int parts : {1, 2, 3}) {
        cases.push_back(
            {"quantize " + std::to_string(parts) + size, OCT_QUANTIZE,
             [=, rows = rows, columns = columns, gap = gap](DType t) {
               Operand x = with_gap(random(t, rows, columns, 1, 3), gap);
               for (std::size_t k = 0; k < x.values.size(); k += 61)
                 x.values[k] = rounded(t, k % 4 == 0 ? 0 : k % 4 == 1 ? 1e-9 : k % 4 == 2 ? -1e9 : 449);
               if (parts == 3) x.values[5] = INFINITY, x.values[9] = NAN;
               return std::vector<Operand>{x,
                                           filled(OCT_F32, 1, 1, {1.7}),
                                           parts & 1 ? with_gap(zeros(format, rows, columns), gap) : absent(),
                                           parts & 2 ? with_gap(zeros(format, columns, rows), gap) : absent(),
                                           filled(OCT_U32, 1, 1, {5}),
                                           filled(OCT_U64, 1, 3, {1, 2, 3})};
             }});
      }
    }
    cases.push_back(
        {"transpose" + size, OCT_TRANSPOSE, [=, rows = rows, columns = columns, gap = gap](DType t) {
           return std::vector<Operand>{with_gap(random(t, rows, columns, 1), gap),
                                       with_gap(zeros(t, columns, rows), gap)};
         }});
    cases.push_back(
        {"transpose of bytes" + size, OCT_TRANSPOSE, [=, rows = rows, columns = columns, gap = gap](DType t) {
           Operand x = with_gap(zeros(OCT_U8, rows, columns), t == OCT_F32 ? gap : 2 * gap);
           for (std::size_t k = 0; k < x.values.size(); ++k) x.values[k] = double(k * 7919 % 251);
           return std::vector<Operand>{x, with_gap(zeros(OCT_U8, columns, rows), x.gap)};
         }});
  }
  return cases;
}

TEST(Compare, Casts) {
  compare(cast_cases());
}

void expect_fused(oct_op op, const std::vector<RowShape>& shapes) {
  Rig rig;
  for (const RowShape& shape : shapes) {
    const DType format = shape.rows % 2 == 0 ? OCT_E4M3 : OCT_E5M2;
    const Form form{op, OCT_BF16, format, shape.rows, shape.columns, shape.gap, 1.7, true};
    SCOPED_TRACE(describe_form(form));
    EXPECT_TRUE(compare_forms(rig, form)) << "the device does not have it";
    if (testing::Test::HasFatalFailure()) return;
  }
}

/// More rows than there are blocks, so that one takes several, by teams of one warp and of two, in LayerNorm
/// and RMSNorm.
TEST(Compare, FusedCastsOfManyRows) {
  expect_fused(OCT_NORM, {{4201, 1032}, {4202, 1032}, {17000, 64}, {17001, 64}});
  expect_fused(OCT_NORM_BACKWARD, {{700, 1032}, {701, 1032}, {3000, 64}, {3001, 64}});
  expect_fused(OCT_GELU, {{4201, 1032}});
}

/// Each number of pieces of a thread, teams of up to sixteen warps, and rows that are taken plainly.
TEST(Compare, FusedCasts) {
  for (const oct_op op :
       {OCT_NORM, OCT_NORM_BACKWARD, OCT_GELU, OCT_GELU_BACKWARD, OCT_SWIGLU, OCT_SWIGLU_BACKWARD})
    expect_fused(op, {{64, 256},
                      {33, 512},
                      {32, 768},
                      {37, 1600},
                      {24, 2304},
                      {20, 3072},
                      {11, 8192},
                      {6, 16384},
                      {5, 1604},
                      {8, 1600, 4}});
}

}  // namespace
}  // namespace octachoron::gpu
