#include "core/numerics/formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/base/error.h"

namespace octachoron {
namespace {

constexpr DType kFormats[] = {OCT_E4M3, OCT_E5M2};

TEST(Formats, TheTableOfTheFormats) {
  EXPECT_EQ(format_maximum(OCT_E4M3), 448);
  EXPECT_EQ(format_maximum(OCT_E5M2), 57344);
  EXPECT_EQ(decode_fp8(OCT_E4M3, 0x08), 0x1p-6f);
  EXPECT_EQ(decode_fp8(OCT_E4M3, 0x01), 0x1p-9f);
  EXPECT_EQ(decode_fp8(OCT_E5M2, 0x04), 0x1p-14f);
  EXPECT_EQ(decode_fp8(OCT_E5M2, 0x01), 0x1p-16f);
  EXPECT_EQ(decode_fp8(OCT_E4M3, 0x38), 1);
  EXPECT_EQ(decode_fp8(OCT_E5M2, 0xbc), -1);
  EXPECT_EQ(decode_fp8(OCT_E5M2, 0x7c), INFINITY);
  EXPECT_TRUE(std::isnan(decode_fp8(OCT_E4M3, 0xff)));
  EXPECT_TRUE(std::isnan(decode_fp8(OCT_E5M2, 0x7d)));
  EXPECT_THROW(format_maximum(OCT_BF16), Error);
}

TEST(Formats, EveryFiniteCodeSurvives) {
  for (const DType format : kFormats) {
    for (int code = 0; code < 256; ++code) {
      const float value = decode_fp8(format, std::uint8_t(code));
      if (std::isfinite(value)) {
        EXPECT_EQ(encode_fp8(format, value), code) << name(format);
        EXPECT_FALSE(saturates(format, value));
      }
    }
  }
}

/// Between two neighbours: the middle goes to the even code, what is beside it to the nearer one.
TEST(Formats, TiesGoToEven) {
  for (const DType format : kFormats) {
    const int largest = encode_fp8(format, INFINITY);
    for (int code = 0; code < largest; ++code) {
      const float middle =
          (decode_fp8(format, std::uint8_t(code)) + decode_fp8(format, std::uint8_t(code + 1))) / 2;
      EXPECT_EQ(encode_fp8(format, middle), code + code % 2) << name(format) << " " << code;
      EXPECT_EQ(encode_fp8(format, std::nextafter(middle, 0.f)), code);
      EXPECT_EQ(encode_fp8(format, std::nextafter(middle, INFINITY)), code + 1);
      EXPECT_EQ(encode_fp8(format, -middle), (code + code % 2) | 0x80);
    }
  }
}

TEST(Formats, SaturationBeginsWhereRoundingLeavesTheFormat) {
  EXPECT_FALSE(saturates(OCT_E4M3, 464));
  EXPECT_TRUE(saturates(OCT_E4M3, std::nextafter(464.f, INFINITY)));
  EXPECT_FALSE(saturates(OCT_E5M2, std::nextafter(61440.f, 0.f)));
  EXPECT_TRUE(saturates(OCT_E5M2, -61440));
  for (const DType format : kFormats) {
    EXPECT_EQ(decode_fp8(format, encode_fp8(format, 1e30f)), format_maximum(format));
    EXPECT_EQ(decode_fp8(format, encode_fp8(format, -INFINITY)), -format_maximum(format));
    EXPECT_EQ(encode_fp8(format, NAN), 0x7f);
    EXPECT_EQ(encode_fp8(format, -0.f), 0x80);
    EXPECT_EQ(encode_fp8(format, -1e-40f), 0x80);
  }
}

TEST(Formats, ScalesOfTheContract) {
  EXPECT_EQ(scale_of(240, 448, 0), 448.f / 240.f);
  EXPECT_EQ(scale_of(8, 448, 0), 56);
  EXPECT_EQ(scale_of(0.5, 448, 0), 896);
  EXPECT_EQ(scale_of(8, 448, 3), 7);
  // Fault A01: 448 / 1e-37 is beyond FP32.
  for (const DType format : kFormats) {
    const float scale = scale_of(1e-37f, format_maximum(format), 0);
    EXPECT_EQ(scale, kLargestScale);
    EXPECT_TRUE(std::isnormal(1 / scale));
    const float back = decode_fp8(format, encode_fp8(format, 1e-37f * scale)) / scale;
    EXPECT_NEAR(back / 1e-37f, 1, format == OCT_E4M3 ? 1. / 16 : 1. / 8);
  }
  EXPECT_EQ(scale_of(std::numeric_limits<float>::denorm_min(), 57344, 16), kLargestScale);
}

}  // namespace
}  // namespace octachoron
