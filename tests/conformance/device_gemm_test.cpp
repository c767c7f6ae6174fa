/// Products of every type, transposition and pitch against sums in FP64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {
namespace {

struct Case {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate, bias;
  DType type, result;
  std::int64_t gap;
};

std::vector<Operand> operands_of(const Case& c) {
  return {with_gap(random(c.type, c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k, 1), c.gap),
          with_gap(random(c.type, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n, 2), c.gap),
          absent(),
          absent(),
          c.bias ? random(c.type, 1, c.n, 3) : absent(),
          with_gap(random(c.result, c.m, c.n, 4), c.gap)};
}

struct Expected {
  std::vector<double> values;
  double early = 0;  ///< what roundings of parts of the sum to the type of the result may add to the error
};

/// A library that multiplies may round the product to BF16 before bias and previous result are added, and
/// again between the two: cuBLASLt seems to (tests/gpu/rounding_test.cpp tells). Each
/// rounding is off by 2^-8 of what it rounds. Own kernels of hosts round once.
Expected expected(const Case& c, const std::vector<Operand>& o, bool is_host) {
  Expected e = {std::vector<double>(std::size_t(c.m * c.n))};
  const double unit = !is_host && c.result == OCT_BF16 ? std::ldexp(1, -8) : 0;
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      const double bias = c.bias ? o[4].values[std::size_t(j)] : 0, before = c.accumulate ? o[5].at(i, j) : 0;
      double product = 0;
      for (std::int64_t k = 0; k < c.k; ++k) {
        product +=
            (c.transpose_a ? o[0].at(k, i) : o[0].at(i, k)) * (c.transpose_b ? o[1].at(j, k) : o[1].at(k, j));
      }
      e.values[std::size_t(i * c.n + j)] = product + bias + before;
      if (!c.bias && !c.accumulate) continue;
      const double between = c.bias && c.accumulate ? std::abs(product + before) : 0;
      e.early = std::max(e.early, unit * (std::abs(product) + between));
    }
  }
  return e;
}

Attributes attributes(const Case& c) {
  return {.i = {c.transpose_a, c.transpose_b, c.accumulate, 0}};
}

void expect_product(Rig& rig, const Case& c) {
  SCOPED_TRACE(testing::Message() << c.m << " x " << c.n << " x " << c.k << (c.transpose_a ? " A'" : "")
                                  << (c.transpose_b ? " B'" : "") << (c.accumulate ? " add" : "")
                                  << (c.bias ? " bias " : " ") << name(c.type) << " -> " << name(c.result));
  std::vector<Operand> o = operands_of(c);
  const Expected e = expected(c, o, rig.properties().is_host == 1);
  rig.run(OCT_GEMM, o, attributes(c));
  double largest = 1e-30;
  for (const double v : e.values) largest = std::max(largest, std::abs(v));
  // FP32 sums in FP32, so the rounding of the coarser of the two types counts.
  const double bound = std::max(tolerance(c.result), c.type == OCT_F64 ? 1e-13 : 2e-6);
  EXPECT_LE(difference(o[5].values, e.values), bound + e.early / largest);
}

constexpr std::int64_t kSizes[][3] = {{1, 1, 1},    {1, 7, 3},    {5, 1, 17},
                                      {13, 37, 71}, {64, 48, 32}, {67, 129, 257}};

TEST(DeviceGemm, AllTypesTranspositionsAndPitches) {
  Rig rig;
  for (const DType type : kTypes) {
    for (const auto& size : kSizes) {
      for (int bits = 0; bits < 16; ++bits) {
        expect_product(rig, {size[0], size[1], size[2], (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0,
                             (bits & 8) != 0, type, type, bits % 3});
      }
    }
  }
}

TEST(DeviceGemm, ResultsOfOtherTypes) {
  Rig rig;
  for (const DType type : kTypes) {
    for (const DType result : kTypes) {
      for (const bool accumulate : {false, true}) {
        expect_product(rig, {33, 21, 65, false, true, accumulate, true, type, result, 3});
      }
    }
  }
}

TEST(DeviceGemm, LargeProductsAreCutWithoutSeams) {
  Rig rig;
  expect_product(rig, {401, 307, 211, false, true, false, true, OCT_F32, OCT_F32, 5});
  expect_product(rig, {1111, 130, 67, false, true, true, true, OCT_F32, OCT_F32, 5});
  expect_product(rig, {65, 1601, 131, true, false, false, true, OCT_BF16, OCT_BF16, 1});
  expect_product(rig, {307, 401, 211, true, false, true, false, OCT_BF16, OCT_F32, 0});
  if (computes(OCT_F64)) expect_product(rig, {130, 70, 600, true, true, true, false, OCT_F64, OCT_F64, 1});
}

TEST(DeviceGemm, EmptyDepthGivesTheBias) {
  Rig rig;
  for (const DType type : kTypes) expect_product(rig, {3, 5, 0, true, true, false, true, type, type, 0});
}

/// Fault B05: the bias of a layer whose products are zero is the result, once.
TEST(DeviceGemm, BiasIsAddedOnce) {
  Rig rig;
  std::vector<Operand> o = {random(OCT_F32, 4, 6, 1),         zeros(OCT_F32, 3, 6), absent(), absent(),
                            filled(OCT_F32, 1, 3, {1, 2, 3}), zeros(OCT_F32, 4, 3)};
  rig.run(OCT_GEMM, o, {.i = {0, 1, 0, 0}});
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t c = 0; c < 3; ++c) EXPECT_EQ(o[5].at(r, c), double(c + 1));
  }
}

TEST(DeviceGemm, NanStaysInItsRow) {
  Rig rig;
  for (const DType type : kTypes) {
    std::vector<Operand> o = operands_of({5, 9, 11, false, false, false, false, type, type, 0});
    o[0].values[2 * 11 + 4] = NAN;
    rig.run(OCT_GEMM, o, {.i = {0, 0, 0, 0}});
    for (std::int64_t r = 0; r < 5; ++r) {
      for (std::int64_t c = 0; c < 9; ++c) EXPECT_EQ(std::isnan(o[5].at(r, c)), r == 2);
    }
  }
}

TEST(DeviceGemm, ThreadsDoNotChangeBits) {
  for (const DType type : kTypes) {
    for (const Case c : {Case{1111, 130, 67, false, true, false, true, type, type, 5},
                         Case{40, 30, 5000, true, false, true, false, type, wide(type), 0}}) {
      std::vector<Operand> one = operands_of(c);
      Rig(1).run(OCT_GEMM, one, attributes(c));
      for (const int threads : {2, 3}) {
        std::vector<Operand> many = operands_of(c);
        Rig(threads).run(OCT_GEMM, many, attributes(c));
        EXPECT_EQ(many[5].values, one[5].values) << threads << " threads, " << name(type);
      }
    }
  }
}

}  // namespace
}  // namespace octachoron::conformance
