/// Casts to FP8 and back, what is counted on the way, maxima and transpositions against
/// core/numerics/formats.h.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/numerics/formats.h"
#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {
namespace {

constexpr DType kFormats[] = {OCT_E4M3, OCT_E5M2};
constexpr std::int64_t kShapes[][2] = {{1, 1}, {3, 7}, {17, 48}, {5, 131}, {130, 67}, {2, 4099}};
constexpr double kInf = std::numeric_limits<double>::infinity();

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}
void expect_same(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t k = 0; k < actual.size(); ++k)
    ASSERT_TRUE(same(actual[k], expected[k])) << k << ": " << actual[k] << ", not " << expected[k];
}

double bits(double magnitude) {
  return double(std::bit_cast<std::uint32_t>(float(std::abs(magnitude))));
}
/// Of the maximum as it is recorded: NaN beats infinity beats all numbers.
double amax_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double v : values) largest = std::max(largest, bits(v));
  return largest;
}

struct Cast {
  std::vector<double> values, counters = {0, 0, 0};
};
Cast cast(DType format, const std::vector<double>& values, float scale) {
  Cast c;
  for (const double v : values) {
    const float x = float(v), scaled = x * scale;
    const double q = decode_fp8(format, encode_fp8(format, scaled));
    c.values.push_back(q);
    c.counters[0] += std::isfinite(x) && saturates(format, scaled);
    c.counters[1] += x != 0 && q == 0;
    c.counters[2] += !std::isfinite(x);
  }
  return c;
}
std::vector<double> transposed(std::int64_t rows, std::int64_t columns, const std::vector<double>& values) {
  std::vector<double> t(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c)
      t[std::size_t(c * rows + r)] = values[std::size_t(r * columns + c)];
  }
  return t;
}

Operand scalar(DType type, double value) {
  return filled(type, 1, 1, {value});
}
std::vector<Operand> quantize_operands(const Operand& x, DType format, double scale, std::int64_t gap = 0) {
  return {x,
          scalar(OCT_F32, scale),
          with_gap(zeros(format, x.rows, x.columns), gap),
          with_gap(zeros(format, x.columns, x.rows), gap),
          scalar(OCT_U32, 0),
          zeros(OCT_U64, 1, 3)};
}

/// Normal numbers with what is special about floats among them.
Operand awkward(DType type, std::int64_t rows, std::int64_t columns, bool finite = false) {
  Operand x = random(type, rows, columns, 7, 100);
  const double special[] = {
      0, -0.0, 1e-37, -1e-30, 464, 448, 61440, 1e30, -1e30, finite ? 0 : NAN, finite ? 0 : -kInf};
  for (std::size_t k = 0; k < x.values.size(); k += 3) x.values[k] = rounded(type, special[k / 3 % 11]);
  return x;
}

TEST(DeviceCast, QuantizeAtAwkwardSizes) {
  Rig rig;
  for (const DType format : kFormats) {
    for (const DType type : kTypes) {
      for (const auto& shape : kShapes) {
        for (const std::int64_t gap : {0, 3}) {
          SCOPED_TRACE(testing::Message() << name(type) << " -> " << name(format) << " " << shape[0] << " x "
                                          << shape[1] << " gap " << gap);
          std::vector<Operand> o =
              quantize_operands(with_gap(awkward(type, shape[0], shape[1]), gap), format, 1.7, gap);
          const Cast expected = cast(format, o[0].values, 1.7f);
          rig.run(OCT_QUANTIZE, o);
          expect_same(o[2].values, expected.values);
          expect_same(o[3].values, transposed(shape[0], shape[1], expected.values));
          EXPECT_EQ(o[4].values[0], amax_of(o[0].values));
          EXPECT_EQ(o[5].values, expected.counters);
        }
      }
    }
  }
}

TEST(DeviceCast, EachOutputMayBeLeftOut) {
  Rig rig;
  for (int present = 1; present < 16; ++present) {
    if ((present & 3) == 0) continue;  // neither way round
    std::vector<Operand> o = quantize_operands(awkward(OCT_BF16, 70, 33), OCT_E5M2, 0.5);
    for (int k = 0; k < 4; ++k) {
      if ((present & 1 << k) == 0) o[std::size_t(2 + k)] = absent();
    }
    const Cast expected = cast(OCT_E5M2, o[0].values, 0.5f);
    rig.run(OCT_QUANTIZE, o);
    if (o[2].rows > 0) expect_same(o[2].values, expected.values);
    if (o[3].rows > 0) expect_same(o[3].values, transposed(70, 33, expected.values));
    if (o[4].rows > 0) {
      EXPECT_EQ(o[4].values[0], amax_of(o[0].values));
    }
    if (o[5].rows > 0) {
      EXPECT_EQ(o[5].values, expected.counters);
    }
  }
}

/// Every 997th of all floats, NaN and subnormals among them, and all ties of the formats with their
/// neighbours.
TEST(DeviceCast, AgreesWithTheReferenceOverAllFloats) {
  Rig rig;
  for (const DType format : kFormats) {
    std::vector<double> values;
    for (std::uint64_t bits = 0; bits < std::uint64_t(1) << 32; bits += 997)
      values.push_back(std::bit_cast<float>(std::uint32_t(bits)));
    for (int code = 0; code < 0x7c; ++code) {
      const float middle =
          (decode_fp8(format, std::uint8_t(code)) + decode_fp8(format, std::uint8_t(code + 1))) / 2;
      for (const float v : {std::nextafter(middle, 0.f), middle, std::nextafter(middle, INFINITY)}) {
        values.push_back(v);
        values.push_back(-v);
      }
    }
    const auto n = std::int64_t(values.size());
    std::vector<Operand> o = {filled(OCT_F32, 1, n, values), scalar(OCT_F32, 1), zeros(format, 1, n)};
    rig.run(OCT_QUANTIZE, o);
    expect_same(o[2].values, cast(format, values, 1).values);
  }
}

/// One rounding to FP32 between the product and the cast: a fused one would give the other neighbour.
TEST(DeviceCast, TheProductIsRoundedToFp32) {
  Rig rig;
  const float scale = 1 + 0x1p-23f;
  std::vector<double> values;
  for (int k = 0; k < 4096; ++k) values.push_back(float(1.0625 * (1 - 0x1p-23 * (k - 2048))));
  std::vector<Operand> o = {filled(OCT_F32, 1, 4096, values), scalar(OCT_F32, scale),
                            zeros(OCT_E4M3, 1, 4096)};
  rig.run(OCT_QUANTIZE, o);
  expect_same(o[2].values, cast(OCT_E4M3, values, scale).values);
}

/// Mission's example: an amax of 240 makes 120 to 224; 300 is clipped to 448, comes back as 240, and is
/// counted.
TEST(DeviceCast, WorkedExample) {
  Rig rig;
  const float scale = 448.f / 240.f;
  std::vector<Operand> o = quantize_operands(filled(OCT_F32, 1, 3, {120, 240, 300}), OCT_E4M3, scale);
  rig.run(OCT_QUANTIZE, o);
  EXPECT_EQ(o[2].values, (std::vector<double>{224, 448, 448}));
  EXPECT_NEAR(o[2].values[2] / scale, 240, 1e-4);
  EXPECT_EQ(o[5].values, (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(o[4].values[0], bits(300));
}

TEST(DeviceCast, CountsAtTheThresholds) {
  Rig rig;
  const auto counters = [&](DType format, std::vector<double> values) {
    const auto n = std::int64_t(values.size());
    std::vector<Operand> o = quantize_operands(filled(OCT_F32, 1, n, std::move(values)), format, 1);
    rig.run(OCT_QUANTIZE, o);
    return o[5].values;
  };
  using Counters = std::vector<double>;
  EXPECT_EQ(counters(OCT_E4M3, {464, -464, 448}), (Counters{0, 0, 0}));
  EXPECT_EQ(counters(OCT_E4M3, {std::nextafter(464.f, INFINITY), -465, 1e30}), (Counters{3, 0, 0}));
  EXPECT_EQ(counters(OCT_E5M2, {std::nextafter(61440.f, 0.f), 57344}), (Counters{0, 0, 0}));
  EXPECT_EQ(counters(OCT_E5M2, {61440, -61440}), (Counters{2, 0, 0}));
  // Half the smallest subnormal is a tie, and zero is even.
  EXPECT_EQ(counters(OCT_E4M3, {0x1p-10, -0x1p-10, std::nextafter(0x1p-10f, 1.f), 0, -0.0, 1e-44}),
            (Counters{0, 3, 0}));
  EXPECT_EQ(counters(OCT_E5M2, {0x1p-17, 0x1.8p-17}), (Counters{0, 1, 0}));
  EXPECT_EQ(counters(OCT_E5M2, {NAN, kInf, -kInf, 1}), (Counters{0, 0, 3}));
}

/// Finite values that the scale takes beyond FP32 saturate; they are not infinities of the tensor.
TEST(DeviceCast, TinyAndHugeWithTheLargestScale) {
  Rig rig;
  std::vector<Operand> o =
      quantize_operands(filled(OCT_F32, 1, 3, {1e-37, 1e20, 0}), OCT_E4M3, kLargestScale);
  rig.run(OCT_QUANTIZE, o);
  EXPECT_NEAR(o[2].values[0] / kLargestScale / 1e-37, 1, 1. / 16);
  EXPECT_EQ(o[2].values[1], 448);
  EXPECT_EQ(o[2].values[2], 0);
  EXPECT_EQ(o[5].values, (std::vector<double>{1, 0, 0}));
}

TEST(DeviceCast, AmaxAndCountersAccumulate) {
  Rig rig;
  std::vector<Operand> o = quantize_operands(filled(OCT_F32, 1, 2, {500, 8}), OCT_E4M3, 1);
  rig.run(OCT_QUANTIZE, o);
  o[0].values = {600, 1e-9};
  rig.run(OCT_QUANTIZE, o);
  o[0].values = {2, NAN};
  rig.run(OCT_QUANTIZE, o);
  EXPECT_EQ(o[5].values, (std::vector<double>{2, 1, 1}));
  EXPECT_GT(o[4].values[0], bits(kInf)) << "NaN beats all";
}

TEST(DeviceCast, WindowOfASequence) {
  Rig rig;
  const Operand x = awkward(OCT_F32, 1, 5000, true);
  for (const auto& [first, begin, end] : {std::array{100, 0, 90000},
                                          {100, 300, 4000},
                                          {100, 0, 101},
                                          {100, 5099, 6000},
                                          {100, 0, 100},
                                          {100, 5100, 6000},
                                          {100, 200, 200}}) {
    const std::int64_t from = std::clamp(begin - first, 0, 5000),
                       to = std::clamp(end - first, int(from), 5000);
    const std::vector<double> part(x.values.begin() + from, x.values.begin() + to);
    std::vector<Operand> o = quantize_operands(x, OCT_E4M3, 2);
    o[3] = absent();
    const std::vector<double> before(5000, 13);
    o[2].values = before;
    rig.run(OCT_QUANTIZE, o, {.i = {1, first, begin, end}});
    const Cast expected = cast(OCT_E4M3, part, 2);
    std::vector<double> all = before;
    std::copy(expected.values.begin(), expected.values.end(), all.begin() + from);
    expect_same(o[2].values, all);
    EXPECT_EQ(o[5].values, expected.counters);
    EXPECT_EQ(o[4].values[0], amax_of(part));
    std::vector<Operand> amax = {x, scalar(OCT_U32, 99)};
    rig.run(OCT_AMAX, amax, {.i = {0, first, begin, end, 1}});
    EXPECT_EQ(amax[1].values[0], amax_of(part));
  }
}

TEST(DeviceCast, AmaxOfAllTypes) {
  Rig rig;
  for (const DType type : kTypes) {
    for (const auto& shape : kShapes) {
      for (const bool finite : {true, false}) {
        std::vector<Operand> o = {with_gap(awkward(type, shape[0], shape[1], finite), 5),
                                  scalar(OCT_U32, 4e9)};
        rig.run(OCT_AMAX, o);
        EXPECT_EQ(o[1].values[0], amax_of(o[0].values)) << name(type);
        o[1].values[0] = bits(1e31);
        rig.run(OCT_AMAX, o, {.i = {1}});
        EXPECT_EQ(o[1].values[0], std::max(bits(1e31), amax_of(o[0].values)));
      }
    }
  }
  std::vector<Operand> none = {zeros(OCT_F32, 0, 5), scalar(OCT_U32, 7)};
  rig.run(OCT_AMAX, none);
  EXPECT_EQ(none[1].values[0], 0) << "nothing: zero";
}

TEST(DeviceCast, ThreadsDoNotChangeBits) {
  for (const bool tiles : {true, false}) {
    std::vector<std::vector<Operand>> results;
    for (const int threads : {1, 2, 3}) {
      std::vector<Operand> o = quantize_operands(awkward(OCT_BF16, 301, 517, true), OCT_E4M3, 3);
      if (!tiles) o[3] = absent();
      Rig(threads).run(OCT_QUANTIZE, o);
      results.push_back(std::move(o));
    }
    for (const auto& o : results) {
      for (std::size_t k = 2; k < o.size(); ++k) EXPECT_EQ(o[k].values, results[0][k].values);
    }
  }
}

TEST(DeviceCast, AllCodesAsNumbers) {
  Rig rig;
  for (const DType format : kFormats) {
    for (const DType type : {OCT_F32, OCT_BF16}) {
      std::vector<Operand> o = {zeros(OCT_U8, 1, 256), zeros(type, 1, 256)};
      for (int code = 0; code < 256; ++code) o[0].values[std::size_t(code)] = code;
      o[0].declared = format;
      rig.run(OCT_COPY, o);
      for (int code = 0; code < 256; ++code) {
        const double expected = decode_fp8(format, std::uint8_t(code));
        EXPECT_TRUE(same(o[1].values[std::size_t(code)], expected)) << name(format) << " " << code;
      }
    }
    std::vector<Operand> fill = {with_gap(filled(format, 3, 5, std::vector<double>(15, 2)), 2)};
    rig.run(OCT_FILL, fill, {.f = {0}});
    EXPECT_EQ(fill[0].values, std::vector<double>(15, 0));
  }
}

TEST(DeviceCast, Transpose) {
  for (const DType type : {OCT_E4M3, OCT_U8, OCT_BF16, OCT_F32, OCT_I32}) {
    for (const auto& shape : kShapes) {
      for (const std::int64_t gap : {0, 3}) {
        Rig rig(shape[0] % 2 + 1);
        Operand x = random(OCT_F32, shape[0], shape[1], 3, 10);
        if (type == OCT_U8) {
          for (double& v : x.values) v = std::abs(v);
        }
        std::vector<Operand> o = {with_gap(filled(type, shape[0], shape[1], x.values), gap),
                                  with_gap(zeros(type, shape[1], shape[0]), gap)};
        rig.run(OCT_TRANSPOSE, o);
        expect_same(o[1].values, transposed(shape[0], shape[1], o[0].values));
      }
    }
  }
}

}  // namespace
}  // namespace octachoron::conformance
