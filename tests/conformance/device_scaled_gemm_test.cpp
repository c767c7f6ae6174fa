/// Products of FP8 operands against sums in FP64 of the decoded values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {
namespace {

using testing::HasSubstr;

struct Case {
  std::int64_t m, n, k;
  DType a, b, result;
  bool transpose_a = false, transpose_b = true, accumulate = false;
  DType bias = OCT_DTYPES;  ///< none
  std::int64_t gap = 0;
  double a_scale = 3, b_scale = 0.7;
  bool fast = false;
};

std::vector<Operand> operands_of(const Case& c) {
  return {with_gap(random(c.a, c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k, 1, 20), c.gap),
          with_gap(random(c.b, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n, 2, 20), c.gap),
          filled(OCT_F32, 1, 1, {c.a_scale}),
          filled(OCT_F32, 1, 1, {c.b_scale}),
          c.bias == OCT_DTYPES ? absent() : random(c.bias, 1, c.n, 3),
          with_gap(random(c.result, c.m, c.n, 4), c.gap)};
}
/// What every device must take; the rest it may refuse, since tensor cores do.
bool is_common(const Case& c) {
  const bool sixteens = c.m % 16 == 0 && c.n % 16 == 0 && c.k % 16 == 0 && c.k > 0 && c.gap == 0;
  return sixteens && !c.transpose_a && c.transpose_b && (c.a == OCT_E4M3 || c.b == OCT_E4M3);
}
Attributes attributes(const Case& c) {
  return {.i = {c.transpose_a, c.transpose_b, c.accumulate, c.fast}};
}

/// Every element within the bound of an FP32 sum of k products in any order, and the roundings of the end.
void expect_product(Rig& rig, const Case& c) {
  SCOPED_TRACE(testing::Message() << c.m << " x " << c.n << " x " << c.k << " " << name(c.a) << " "
                                  << name(c.b) << " -> " << name(c.result) << (c.transpose_a ? " A'" : "")
                                  << (c.transpose_b ? " B'" : "") << (c.accumulate ? " add" : ""));
  std::vector<Operand> o = operands_of(c);
  const std::vector<Operand> in = o;
  if (!is_common(c) && !rig.refusal(describe(OCT_GEMM, o, attributes(c))).empty()) return;
  rig.run(OCT_GEMM, o, attributes(c));
  const double unit = std::ldexp(1, -24), end = c.result == OCT_BF16 ? std::ldexp(1, -8) : unit;
  const bool is_host = rig.properties().is_host == 1;
  const double factor = 1 / (in[2].values[0] * in[3].values[0]);
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < c.k; ++k) {
        const double term = (c.transpose_a ? in[0].at(k, i) : in[0].at(i, k)) *
                            (c.transpose_b ? in[1].at(j, k) : in[1].at(k, j));
        sum += term * factor;
        magnitude += std::abs(term) * factor;
      }
      const double bias = in[4].rows > 0 ? in[4].at(0, j) : 0, before = c.accumulate ? in[5].at(i, j) : 0;
      const double expected = sum + bias + before;
      // Tensor cores keep about 14 bits while they accumulate FP8, fewer where they need not be exact.
      const double accumulation = is_host ? 0 : std::ldexp(magnitude, c.fast ? -10 : -13);
      // The library may round the product, and its sum with the previous result, before the rest is added.
      const bool adds = in[4].rows > 0 || c.accumulate, adds_both = in[4].rows > 0 && c.accumulate;
      const double early =
          is_host ? 0 : (adds ? std::abs(sum) : 0) + (adds_both ? std::abs(sum + before) : 0);
      const double bound = (double(c.k) + 8) * unit * (magnitude + std::abs(bias) + std::abs(before)) +
                           end * (std::abs(expected) + early) + accumulation;
      ASSERT_LE(std::abs(o[5].at(i, j) - expected), bound) << i << ", " << j;
    }
  }
}

TEST(DeviceScaledGemm, FormatsTranspositionsAndPitches) {
  Rig rig;
  for (const DType a : {OCT_E4M3, OCT_E5M2}) {
    for (const DType b : {OCT_E4M3, OCT_E5M2}) {
      for (const auto& [m, n, k] :
           {std::array{1, 1, 1}, {5, 1, 17}, {13, 37, 71}, {64, 48, 32}, {48, 80, 512}}) {
        for (int bits = 0; bits < 32; ++bits) {
          expect_product(rig, {m, n, k, a, b, (bits & 1) != 0 ? OCT_F32 : OCT_BF16, (bits & 2) != 0,
                               (bits & 4) != 0, (bits & 8) != 0,
                               (bits & 16) == 0  ? OCT_DTYPES
                               : (bits & 2) != 0 ? OCT_F32
                                                 : OCT_BF16,
                               bits % 3});
        }
      }
    }
  }
}

TEST(DeviceScaledGemm, LargerOnes) {
  Rig rig;
  expect_product(rig, {401, 67, 300, OCT_E4M3, OCT_E4M3, OCT_BF16, false, true, false, OCT_BF16, 0});
  expect_product(rig, {65, 601, 131, OCT_E5M2, OCT_E4M3, OCT_F32, true, false, true, OCT_DTYPES, 1});
  expect_product(rig, {16, 16, 4096, OCT_E5M2, OCT_E4M3, OCT_F32});
  expect_product(rig, {3, 5, 0, OCT_E5M2, OCT_E4M3, OCT_F32, true, true, false, OCT_F32});
}

TEST(DeviceScaledGemm, FastAccumulation) {
  Rig rig;
  for (const DType a : {OCT_E4M3, OCT_E5M2}) {
    for (const bool accumulate : {false, true}) {
      Case c = {64, 96, 2048, a, OCT_E4M3, OCT_F32, false, true, accumulate};
      c.fast = true;
      expect_product(rig, c);
    }
  }
}

/// Scales that are powers of two and a depth of one: the result is exact.
TEST(DeviceScaledGemm, ScalesAreDividedOutOneAfterTheOther) {
  Rig rig;
  std::vector<Operand> o = {filled(OCT_E4M3, 1, 1, {448}),
                            filled(OCT_E5M2, 1, 1, {57344}),
                            filled(OCT_F32, 1, 1, {0x1p126}),
                            filled(OCT_F32, 1, 1, {0x1p-100}),
                            absent(),
                            zeros(OCT_F32, 1, 1)};
  if (!rig.refusal(describe(OCT_GEMM, o, {.i = {0, 1, 0, 1}})).empty())
    GTEST_SKIP() << "not in multiples of 16";
  rig.run(OCT_GEMM, o, {.i = {0, 1, 0, 1}});
  EXPECT_EQ(o[5].values[0], std::ldexp(448. * 57344., -26));
  // Two largest scales: the product of their inverses alone would be zero, and with it the bias lost to NaN.
  o[3].values = {0x1p126};
  o[4] = filled(OCT_F32, 1, 1, {5});
  rig.run(OCT_GEMM, o, {.i = {0, 1, 0, 1}});
  EXPECT_EQ(o[5].values[0], 5);
}

TEST(DeviceScaledGemm, NanStaysInItsRow) {
  Rig rig;
  std::vector<Operand> o = operands_of({16, 32, 16, OCT_E4M3, OCT_E4M3, OCT_F32});
  o[0].values[2 * 16 + 4] = NAN;
  rig.run(OCT_GEMM, o, {.i = {0, 1, 0, 0}});
  for (std::int64_t r = 0; r < 16; ++r) {
    for (std::int64_t c = 0; c < 32; ++c) EXPECT_EQ(std::isnan(o[5].at(r, c)), r == 2);
  }
}

TEST(DeviceScaledGemm, ThreadsDoNotChangeBits) {
  for (const Case& c :
       {Case{1120, 144, 64, OCT_E4M3, OCT_E4M3, OCT_BF16}, Case{1111, 130, 64, OCT_E4M3, OCT_E4M3, OCT_BF16},
        Case{48, 32, 5008, OCT_E5M2, OCT_E4M3, OCT_F32, true, false, true}}) {
    std::vector<Operand> one = operands_of(c);
    if (!Rig().refusal(describe(OCT_GEMM, one, attributes(c))).empty()) continue;
    Rig(1).run(OCT_GEMM, one, attributes(c));
    for (const int threads : {2, 3}) {
      std::vector<Operand> many = operands_of(c);
      Rig(threads).run(OCT_GEMM, many, attributes(c));
      EXPECT_EQ(many[5].values, one[5].values) << threads;
    }
  }
}

TEST(DeviceScaledGemm, ScalesAndFp8ComeTogether) {
  Rig rig;
  std::vector<Operand> o = operands_of({16, 16, 16, OCT_E4M3, OCT_E5M2, OCT_F32});
  const auto refusal = [&] { return rig.refusal(describe(OCT_GEMM, o, {.i = {0, 1}})); };
  EXPECT_EQ(refusal(), "");
  std::swap(o[3], o[4]);
  EXPECT_THAT(refusal(), HasSubstr("b_scale"));
  std::swap(o[3], o[4]);
  o[1].type = OCT_BF16;
  EXPECT_THAT(refusal(), HasSubstr("(b) is of type bf16, not e4m3 or e5m2"));
  o[0].type = OCT_BF16;
  EXPECT_THAT(refusal(), HasSubstr("(a_scale) is there"));
  o[0].type = o[1].type = OCT_E5M2;
  o[5].type = OCT_F64;
  EXPECT_THAT(refusal(), HasSubstr("(d) is of type f64"));
}

TEST(DeviceScaledGemm, ScalesLieAtMultiplesOf16) {
  Rig rig;
  const std::vector<Operand> o = operands_of({16, 16, 16, OCT_E4M3, OCT_E4M3, OCT_F32});
  const oct_operation gemm = describe(OCT_GEMM, o, {.i = {0, 1}});
  std::int32_t id = -1;
  ASSERT_EQ(rig.table().prepare(rig.device(), &gemm, &id), OCT_OK);
  alignas(16) char memory[2048] = {};
  void* const pointers[] = {memory, memory, memory, memory + 4, nullptr, memory, memory};
  EXPECT_EQ(rig.table().enqueue(rig.device(), id, pointers, rig.lane()), OCT_INVALID_ARGUMENT);
  EXPECT_THAT(rig.last_error(), HasSubstr("b_scale is not a multiple of 16"));
}

}  // namespace
}  // namespace octachoron::conformance
