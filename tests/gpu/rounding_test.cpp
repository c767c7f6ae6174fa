/// Where a product in BF16 is rounded. The operands are small integers, so that the product is exact in FP32
/// in whatever order it is summed, and each result must be, bit by bit, that of one of five ways to round.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>

#include "tests/conformance/device_rig.h"

namespace octachoron::gpu {
namespace {

using namespace conformance;

constexpr std::int64_t kRows = 96, kColumns = 192, kDepth = 320;

/// Sums of products of 0 .. 4 are below 2^13, which even the short accumulators of FP8 hold, and about 1300,
/// where BF16 counts by eights. Numbers up to 100 are exact in BF16.
Operand integers(DType type, std::int64_t rows, std::int64_t columns, unsigned seed, int least, int most) {
  std::mt19937 generator(seed);
  Operand o = zeros(type, rows, columns);
  for (double& v : o.values) v = int(generator() % unsigned(most - least + 1)) + least;
  return o;
}

struct Product {
  DType type;
  bool bias, accumulate;
  std::int64_t gap;
};

std::vector<Operand> operands_of(const Product& p) {
  const bool scaled = p.type != OCT_BF16;
  const Operand one = filled(OCT_F32, 1, 1, {1});
  return {with_gap(integers(p.type, kRows, kDepth, 1, 0, 4), p.gap),
          with_gap(integers(p.type, kColumns, kDepth, 2, 0, 4), p.gap),
          scaled ? one : absent(),
          scaled ? one : absent(),
          p.bias ? integers(OCT_BF16, 1, kColumns, 3, -100, 100) : absent(),
          p.accumulate ? with_gap(integers(OCT_BF16, kRows, kColumns, 4, -100, 100), p.gap)
                       : with_gap(zeros(OCT_BF16, kRows, kColumns), p.gap)};
}

/// Once at the end; the product first; between previous result and bias, in either order; all of these.
constexpr const char* kWays[] = {"once", "product first", "before the bias", "before the sum", "at each step"};
constexpr int kCount = 5;

TEST(Rounding, EveryResultIsThatOfOneWay) {
  Rig device;
  for (const Product& p : {Product{OCT_BF16, true, false, 0}, Product{OCT_BF16, true, false, 1},
                           Product{OCT_BF16, false, true, 0}, Product{OCT_BF16, false, true, 1},
                           Product{OCT_BF16, true, true, 0}, Product{OCT_BF16, false, false, 0},
                           Product{OCT_E4M3, true, false, 0}, Product{OCT_E4M3, false, true, 0}}) {
    const std::vector<Operand> in = operands_of(p);
    std::vector<Operand> out = in;
    device.run(OCT_GEMM, out, {.i = {0, 1, p.accumulate, 0}});
    int matches[kCount] = {}, strange = 0;
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kColumns; ++j) {
        double product = 0;
        for (std::int64_t k = 0; k < kDepth; ++k) product += in[0].at(i, k) * in[1].at(j, k);
        const double bias = p.bias ? in[4].at(0, j) : 0, before = in[5].at(i, j);
        const auto round = [](double v) { return rounded(OCT_BF16, v); };
        const double ways[] = {round(product + before + bias), round(round(product) + before + bias),
                               round(round(product + before) + bias),
                               round(round(product + bias) + before),
                               round(round(round(product) + before) + bias)};
        bool known = false;
        for (int w = 0; w < kCount; ++w) {
          if (out[5].at(i, j) != ways[w]) continue;
          known = true;
          ++matches[w];
        }
        strange += known ? 0 : 1;
      }
    }
    std::printf("  %s%s%s%s: of %lld,", name(p.type), p.bias ? " bias" : "", p.accumulate ? " add" : "",
                p.gap > 0 ? " odd pitch" : "", static_cast<long long>(kRows * kColumns));
    for (int w = 0; w < kCount; ++w)
      std::printf(" %d as if rounded %s%s", matches[w], kWays[w], w < kCount - 1 ? "," : "\n");
    EXPECT_EQ(strange, 0);
  }
}

}  // namespace
}  // namespace octachoron::gpu
