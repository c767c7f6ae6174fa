/// Elementwise operations, norms, activations, rotary and embedding operations against plain FP64 loops.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {
namespace {

constexpr std::int64_t kShapes[][2] = {{1, 1}, {3, 7}, {17, 48}, {5, 131}, {2, 4099}};

template <class Body>
void for_types_and_shapes(Body body) {
  for (const DType type : kTypes) {
    for (const auto& shape : kShapes) {
      for (const std::int64_t gap : {0, 3}) {
        SCOPED_TRACE(testing::Message()
                     << name(type) << " " << shape[0] << " x " << shape[1] << " gap " << gap);
        body(type, shape[0], shape[1], gap);
      }
    }
  }
}

template <class Function>
std::vector<double> elementwise(const Operand& x, Function f) {
  std::vector<double> y(x.values.size());
  for (std::size_t k = 0; k < y.size(); ++k) y[k] = f(k);
  return y;
}

TEST(DeviceOperations, FillAndCopy) {
  Rig rig;
  for_types_and_shapes([&](DType type, std::int64_t rows, std::int64_t columns, std::int64_t gap) {
    std::vector<Operand> fill = {with_gap(random(type, rows, columns, 1), gap)};
    rig.run(OCT_FILL, fill, {.f = {1.1}});
    for (const double v : fill[0].values) ASSERT_EQ(v, rounded(type, 1.1));
    for (const DType to : kTypes) {
      std::vector<Operand> copy = {with_gap(random(type, rows, columns, 2), gap), zeros(to, rows, columns)};
      rig.run(OCT_COPY, copy);
      for (std::size_t k = 0; k < copy[0].values.size(); ++k) {
        ASSERT_EQ(copy[1].values[k], rounded(to, copy[0].values[k])) << name(to);
      }
    }
  });
}

TEST(DeviceOperations, CopyRoundsToNearestEven) {
  if (!computes(OCT_F64)) GTEST_SKIP() << "the device does not compute in FP64";
  Rig rig;
  const double one = 1, unit = std::ldexp(1, -7);
  // Halfway cases go to the even neighbour; just above halfway only FP64 can tell, and must not be rounded
  // twice.
  const std::vector<double> values = {one + unit / 2,
                                      one + 1.5 * unit,
                                      one + unit / 2 + std::ldexp(1, -40),
                                      -one - unit / 2,
                                      3.4e38,
                                      -3.5e38,
                                      INFINITY,
                                      1e-40,
                                      -0.0,
                                      one + unit / 2 - std::ldexp(1, -40)};
  std::vector<Operand> copy = {filled(OCT_F64, 1, 10, values), zeros(OCT_BF16, 1, 10)};
  rig.run(OCT_COPY, copy);
  const std::vector<double> expected = {
      one,      one + 2 * unit,           one + unit, -one, INFINITY, -INFINITY,
      INFINITY, rounded(OCT_BF16, 1e-40), -0.0,       one};
  for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_EQ(copy[1].values[k], expected[k]) << k;
  EXPECT_TRUE(std::signbit(copy[1].values[8]));
}

TEST(DeviceOperations, CopyKeepsNanAndIntegers) {
  Rig rig;
  for (const DType from : kTypes) {
    for (const DType to : kTypes) {
      std::vector<Operand> copy = {filled(from, 1, 2, {NAN, 1}), zeros(to, 1, 2)};
      rig.run(OCT_COPY, copy);
      EXPECT_TRUE(std::isnan(copy[1].values[0]));
    }
  }
  std::vector<Operand> ids = {filled(OCT_I32, 1, 3, {-1, 2147483647, 7}), zeros(OCT_I32, 1, 3)};
  rig.run(OCT_COPY, ids);
  EXPECT_EQ(ids[1].values, ids[0].values);
}

TEST(DeviceOperations, AddWithBiasInPlace) {
  Rig rig;
  for_types_and_shapes([&](DType type, std::int64_t rows, std::int64_t columns, std::int64_t gap) {
    for (const int place : {-1, 0, 1}) {
      for (const bool bias : {false, true}) {
        std::vector<Operand> o = {with_gap(random(type, rows, columns, 1), gap),
                                  with_gap(random(type, rows, columns, 2), gap),
                                  bias ? random(type, 1, columns, 3) : absent()};
        o.push_back(place < 0 ? zeros(type, rows, columns) : alias_of(o, place));
        const auto expected = elementwise(o[0], [&](std::size_t k) {
          return o[0].values[k] + o[1].values[k] + (bias ? o[2].values[k % std::size_t(columns)] : 0);
        });
        rig.run(OCT_ADD, o);
        ASSERT_LE(difference(o[3].values, expected), tolerance(type)) << "place " << place;
      }
    }
  });
}

TEST(DeviceOperations, ColumnSum) {
  Rig rig;
  for_types_and_shapes([&](DType type, std::int64_t rows, std::int64_t columns, std::int64_t gap) {
    for (const bool accumulate : {false, true}) {
      std::vector<Operand> o = {with_gap(random(type, rows, columns, 1), gap),
                                random(wide(type), 1, columns, 2)};
      std::vector<double> expected = accumulate ? o[1].values : std::vector<double>(std::size_t(columns));
      for (std::size_t k = 0; k < o[0].values.size(); ++k)
        expected[k % std::size_t(columns)] += o[0].values[k];
      rig.run(OCT_COLUMN_SUM, o, {.i = {accumulate}});
      ASSERT_LE(difference(o[1].values, expected), tolerance(wide(type)));
    }
  });
}

/// Many equal terms: a running sum in FP32 would stop at 2^24.
TEST(DeviceOperations, LongSumsAreExact) {
  Rig rig;
  std::vector<Operand> o = {filled(OCT_F32, 40000, 3, std::vector<double>(120000, 1000.0625)),
                            zeros(OCT_F32, 1, 3)};
  rig.run(OCT_COLUMN_SUM, o, {.i = {0}});
  EXPECT_EQ(o[1].values, std::vector<double>(3, rounded(OCT_F32, 40000 * 1000.0625)));
}

struct Norm {
  std::vector<double> y, statistics;
};
Norm reference_norm(const std::vector<Operand>& o, double epsilon, bool rms) {
  const std::int64_t n = o[0].columns;
  Norm norm{std::vector<double>(o[0].values.size()), {}};
  for (std::int64_t r = 0; r < o[0].rows; ++r) {
    double mean = 0, variance = 0;
    for (std::int64_t c = 0; c < n && !rms; ++c) mean += o[0].at(r, c) / double(n);
    for (std::int64_t c = 0; c < n; ++c)
      variance += (o[0].at(r, c) - mean) * (o[0].at(r, c) - mean) / double(n);
    const double inverse = 1 / std::sqrt(variance + epsilon);
    norm.statistics.insert(norm.statistics.end(), {mean, inverse});
    for (std::int64_t c = 0; c < n; ++c) {
      const double bias = o[2].rows > 0 ? o[2].values[std::size_t(c)] : 0;
      norm.y[std::size_t(r * n + c)] = (o[0].at(r, c) - mean) * inverse * o[1].values[std::size_t(c)] + bias;
    }
  }
  return norm;
}

TEST(DeviceOperations, Norms) {
  Rig rig;
  for_types_and_shapes([&](DType type, std::int64_t rows, std::int64_t columns, std::int64_t gap) {
    for (const int kind : {0, 1}) {
      for (const bool bias : {false, true}) {
        std::vector<Operand> o = {with_gap(random(type, rows, columns, 1, 3), gap),
                                  random(type, 1, columns, 2), bias ? random(type, 1, columns, 3) : absent(),
                                  with_gap(zeros(type, rows, columns), gap), zeros(wide(type), rows, 2)};
        const Norm expected = reference_norm(o, 1e-5, kind == 1);
        rig.run(OCT_NORM, o, {.i = {kind}, .f = {1e-5}});
        ASSERT_LE(difference(o[3].values, expected.y), tolerance(type));
        ASSERT_LE(difference(o[4].values, expected.statistics), tolerance(wide(type)));
      }
    }
  });
}

TEST(DeviceOperations, NormOfZerosIsTheBias) {
  Rig rig;
  std::vector<Operand> o = {zeros(OCT_F32, 2, 9), random(OCT_F32, 1, 9, 2), random(OCT_F32, 1, 9, 3),
                            zeros(OCT_F32, 2, 9), zeros(OCT_F32, 2, 2)};
  rig.run(OCT_NORM, o, {.i = {0}, .f = {1e-5}});
  for (std::int64_t c = 0; c < 9; ++c) EXPECT_EQ(o[3].at(1, c), o[2].values[std::size_t(c)]);
}

double reference_gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double silu(double x) {
  return x / (1 + std::exp(-x));
}

TEST(DeviceOperations, Activations) {
  Rig rig;
  for_types_and_shapes([&](DType type, std::int64_t rows, std::int64_t columns, std::int64_t gap) {
    std::vector<Operand> o = {with_gap(random(type, rows, columns, 1, 2), gap),
                              with_gap(zeros(type, rows, columns), gap)};
    rig.run(OCT_GELU, o);
    ASSERT_LE(difference(o[1].values,
                         elementwise(o[0], [&](std::size_t k) { return reference_gelu(o[0].values[k]); })),
              tolerance(type));
    std::vector<Operand> s = {with_gap(random(type, rows, 2 * columns, 1, 2), gap),
                              with_gap(zeros(type, rows, columns), gap)};
    rig.run(OCT_SWIGLU, s);
    const auto expected = elementwise(s[1], [&](std::size_t k) {
      const auto r = std::int64_t(k) / columns, c = std::int64_t(k) % columns;
      return silu(s[0].at(r, c)) * s[0].at(r, columns + c);
    });
    ASSERT_LE(difference(s[1].values, expected), tolerance(type));
  });
}

/// Every point by itself: errors relative to the value, also where it is tiny.
TEST(DeviceOperations, GeluIsAccurateEverywhere) {
  Rig rig;
  std::vector<double> points;
  for (double x = -12; x <= 12; x += 0.0625) points.push_back(x);
  for (const DType type : kTypes) {
    if (type == OCT_BF16) continue;
    std::vector<Operand> o = {filled(type, 1, std::int64_t(points.size()), points),
                              zeros(type, 1, std::int64_t(points.size()))};
    rig.run(OCT_GELU, o);
    for (std::size_t k = 0; k < points.size(); ++k) {
      const double z = 2 * std::sqrt(2 / M_PI) * (points[k] + 0.044715 * std::pow(points[k], 3));
      const double expected = points[k] / (1 + std::exp(-z));
      if (std::abs(expected) < 1e-37) continue;  // below the normal numbers of FP32
      ASSERT_NEAR(o[1].values[k] / (expected == 0 ? 1 : expected), expected == 0 ? 0 : 1,
                  type == OCT_F32 ? 4e-5 : 1e-12)
          << points[k];
      if (std::abs(points[k]) < 4) {
        ASSERT_NEAR(o[1].values[k], expected, std::abs(expected) * (type == OCT_F32 ? 2e-6 : 1e-14));
      }
    }
  }
}

TEST(DeviceOperations, ActivationsOfExtremes) {
  Rig rig;
  for (const DType type : kTypes) {
    std::vector<Operand> o = {filled(type, 1, 6, {NAN, INFINITY, 1e30, -1e30, 0, -200}), zeros(type, 1, 6)};
    rig.run(OCT_GELU, o);
    EXPECT_TRUE(std::isnan(o[1].values[0]));
    EXPECT_EQ(o[1].values[1], INFINITY);
    EXPECT_EQ(o[1].values[2], rounded(type, 1e30));
    for (const int k : {3, 4, 5}) EXPECT_EQ(o[1].values[std::size_t(k)], 0);
    std::vector<Operand> back = {o[0], filled(type, 1, 6, {1, 1, 1, 1, 1, 1}), zeros(type, 1, 6)};
    rig.run(OCT_GELU_BACKWARD, back);
    EXPECT_TRUE(std::isnan(back[2].values[0]));
    EXPECT_EQ(back[2].values[2], 1);
    EXPECT_EQ(back[2].values[3], 0);
    EXPECT_EQ(back[2].values[4], 0.5);
  }
}

/// i0 S, i1 N, i2 K, i3 D, i4 direction, i5 first position.
std::vector<double> reference_rope(const Operand& qkv, const std::vector<std::int64_t>& i, double theta) {
  std::vector<double> y = qkv.values;
  const std::int64_t d = i[3];
  for (std::int64_t t = 0; t < qkv.rows; ++t) {
    for (std::int64_t h = 0; h < i[1] + i[2]; ++h) {
      for (std::int64_t k = 0; k < d / 2; ++k) {
        const double angle =
            double(i[4]) * double(i[5] + t % i[0]) * std::pow(theta, -2. * double(k) / double(d));
        const double a = qkv.at(t, h * d + k), b = qkv.at(t, h * d + d / 2 + k);
        double* row = &y[std::size_t(t * qkv.columns + h * d)];
        row[k] = a * std::cos(angle) - b * std::sin(angle);
        row[d / 2 + k] = a * std::sin(angle) + b * std::cos(angle);
      }
    }
  }
  return y;
}

TEST(DeviceOperations, RopeAndItsInverse) {
  Rig rig;
  for (const DType type : kTypes) {
    for (const std::int64_t d : {2, 6, 64}) {
      for (const std::int64_t first : {0, 13, 1000}) {
        std::vector<std::int64_t> i = {75, 4, 2, d, 1, first, 1};
        std::vector<Operand> o = {with_gap(random(type, 150, 8 * d, 1), 5)};
        const std::vector<double> before = o[0].values, expected = reference_rope(o[0], i, 10000);
        rig.run(OCT_ROPE, o, {.i = i, .f = {10000}});
        ASSERT_LE(difference(o[0].values, expected), type == OCT_F64 ? 1e-12 : tolerance(type));
        i[4] = -1;
        rig.run(OCT_ROPE, o, {.i = i, .f = {10000}});
        ASSERT_LE(difference(o[0].values, before), 3 * tolerance(type));
      }
    }
  }
}

TEST(DeviceOperations, EmbeddingOfOtherRanksIdsIsZero) {
  Rig rig;
  for (const DType type : kTypes) {
    std::vector<Operand> o = {filled(OCT_I32, 1, 6, {7, 3, 12, 2, 13, 7}),
                              with_gap(random(type, 10, 33, 1), 2), with_gap(random(type, 6, 33, 2), 1)};
    rig.run(OCT_EMBEDDING, o, {.i = {3}});  // rows 3 .. 12
    for (std::int64_t c = 0; c < 33; ++c) {
      EXPECT_EQ(o[2].at(0, c), o[1].at(4, c));
      EXPECT_EQ(o[2].at(1, c), o[1].at(0, c));
      EXPECT_EQ(o[2].at(2, c), o[1].at(9, c));
      EXPECT_EQ(o[2].at(3, c), 0);
      EXPECT_EQ(o[2].at(4, c), 0);
    }
  }
}

TEST(DeviceOperations, EmbeddingBackward) {
  Rig rig;
  for (const DType type : kTypes) {
    for (const bool accumulate : {false, true}) {
      const std::int64_t tokens = 700, rows = 300, columns = 131, first = 100;
      Operand ids = zeros(OCT_I32, 1, tokens);
      for (std::int64_t t = 0; t < tokens; ++t) ids.values[std::size_t(t)] = double(t * 37 % 450);
      std::vector<Operand> o = {ids, with_gap(random(type, tokens, columns, 1), 3),
                                with_gap(random(wide(type), rows, columns, 2), 1)};
      std::vector<double> expected =
          accumulate ? o[2].values : std::vector<double>(std::size_t(rows * columns));
      for (std::int64_t t = 0; t < tokens; ++t) {
        const auto row = std::int64_t(ids.values[std::size_t(t)]) - first;
        for (std::int64_t c = 0; c < columns && row >= 0 && row < rows; ++c)
          expected[std::size_t(row * columns + c)] += o[1].at(t, c);
      }
      rig.run(OCT_EMBEDDING_BACKWARD, o, {.i = {first, accumulate}});
      EXPECT_LE(difference(o[2].values, expected), tolerance(wide(type))) << name(type);
    }
  }
}

TEST(DeviceOperations, PositionAndItsGradient) {
  Rig rig;
  for (const DType type : kTypes) {
    const std::int64_t rows = 23, columns = 37, sequence = 5, first = 13;
    std::vector<Operand> o = {with_gap(random(type, rows, columns, 1), 2),
                              random(type, sequence, columns, 2)};
    o.push_back(alias_of(o, 0));
    const auto expected = elementwise(o[0], [&](std::size_t k) {
      const auto t = std::int64_t(k) / columns, c = std::int64_t(k) % columns;
      return o[0].values[k] + o[1].at((t + first) % sequence, c);
    });
    rig.run(OCT_POSITION, o, {.i = {first, sequence}});
    EXPECT_LE(difference(o[2].values, expected), tolerance(type));
    for (const bool accumulate : {false, true}) {
      std::vector<Operand> back = {with_gap(random(type, rows, columns, 1), 2),
                                   random(wide(type), sequence, columns, 3)};
      std::vector<double> sums =
          accumulate ? back[1].values : std::vector<double>(std::size_t(sequence * columns));
      for (std::int64_t t = 0; t < rows; ++t) {
        for (std::int64_t c = 0; c < columns; ++c)
          sums[std::size_t((t + first) % sequence * columns + c)] += back[0].at(t, c);
      }
      rig.run(OCT_POSITION_BACKWARD, back, {.i = {first, sequence, accumulate}});
      EXPECT_LE(difference(back[1].values, sums), tolerance(wide(type)));
    }
  }
}

}  // namespace
}  // namespace octachoron::conformance
