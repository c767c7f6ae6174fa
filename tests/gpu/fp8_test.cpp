/// Casts to FP8, their statistics and scales, transposes and FP8 products against plain host code: casts bit
/// by bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/conformance/device_rig.h"
#include "tests/gpu/raw.h"

namespace octachoron::gpu {
namespace {

struct Format {
  oct_dtype type;
  int mantissa, bias;
  double largest;
};
constexpr Format kE4m3 = {OCT_E4M3, 3, 7, 448}, kE5m2 = {OCT_E5M2, 2, 15, 57344};

/// All finite values of a format by their codes, from the definition.
double decode(const Format& f, int code) {
  const int exponent = code >> f.mantissa & ((1 << (7 - f.mantissa)) - 1),
            fraction = code & ((1 << f.mantissa) - 1);
  const double size = exponent == 0
                          ? std::ldexp(fraction, 1 - f.bias - f.mantissa)
                          : std::ldexp(fraction + (1 << f.mantissa), exponent - f.bias - f.mantissa);
  return code & 0x80 ? -size : size;
}

/// To the nearest code, ties to the even one, by search: slow, but without any trick.
struct Encoder {
  const Format& f;
  int top = 0;
  explicit Encoder(const Format& format) : f(format) {
    while (decode(f, top) != f.largest) ++top;
  }
  int operator()(float value) const {
    const int sign = std::signbit(value) ? 0x80 : 0;
    if (std::isnan(value)) return 0x7f;
    const double size = std::fabs(double(value));
    if (size >= f.largest) return sign | top;
    int low = 0, high = top;
    while (high - low > 1) (decode(f, (low + high) / 2) <= size ? low : high) = (low + high) / 2;
    const double below = size - decode(f, low), above = decode(f, high) - size;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
  }
};

struct Expected {
  std::vector<std::uint8_t> codes;
  std::uint32_t amax = 0;
  std::uint64_t counters[3] = {};
};
Expected expect(const Format& f, const std::vector<float>& x, float scale) {
  const Encoder encode(f);
  Expected e;
  for (const float v : x) {
    const float scaled = v * scale;
    const int code = encode(scaled);
    e.codes.push_back(std::uint8_t(code));
    e.amax = std::max(e.amax, std::bit_cast<std::uint32_t>(v) & 0x7fffffffu);
    e.counters[0] +=
        std::isfinite(v) && (f.mantissa == 3 ? std::fabs(scaled) > 464 : std::fabs(scaled) >= 61440);
    e.counters[1] += v != 0 && !std::isnan(v) && (code & 0x7f) == 0;
    e.counters[2] += !std::isfinite(v);
  }
  return e;
}

/// NaN may have either sign.
bool equal_codes(int a, int b) {
  return a == b || ((a & 0x7f) == 0x7f && (b & 0x7f) == 0x7f);
}

/// Numbers around everything that matters: all magnitudes, ties, zeros, infinities, NaN.
std::vector<float> awkward(std::size_t n) {
  std::mt19937_64 generator(5);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-24, 18);
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = i % 3 == 0 ? std::ldexp(float(int(generator() % 64)) - 32, exponent(generator) - 4)
                      : std::ldexp(normal(generator), exponent(generator));
  const float special[] = {0.f,
                           -0.f,
                           464.f,
                           464.001f,
                           -464.f,
                           448.f,
                           61440.f,
                           61439.9f,
                           INFINITY,
                           -INFINITY,
                           NAN,
                           std::numeric_limits<float>::denorm_min(),
                           std::numeric_limits<float>::max()};
  std::copy(std::begin(special), std::end(special), x.begin());
  return x;
}

std::vector<std::uint16_t> to_bf16(std::vector<float>* x) {
  std::vector<std::uint16_t> halves;
  for (float& v : *x) {
    v = float(conformance::rounded(OCT_BF16, v));
    halves.push_back(std::uint16_t(std::bit_cast<std::uint32_t>(v) >> 16));
  }
  return halves;
}

void expect_cast(const Device& device, const Format& f, bool narrow, std::int64_t rows, std::int64_t columns,
                 bool transposed, float scale) {
  SCOPED_TRACE(testing::Message() << conformance::name(f.type) << (narrow ? " of bf16 " : " of f32 ") << rows
                                  << " x " << columns << " times " << scale);
  std::vector<float> x = awkward(std::size_t(std::max(rows * columns, std::int64_t(13))));
  x.resize(std::size_t(rows * columns));
  const Bytes halves = narrow ? bytes(OCT_BF16, rows, columns, to_bf16(&x)) : Bytes{};
  const Expected e = expect(f, x, scale);
  const std::vector<std::uint8_t> none(std::size_t(rows * columns));
  std::vector<Bytes> o = {narrow ? halves : bytes(OCT_F32, rows, columns, x),
                          bytes(OCT_F32, 1, 1, std::vector<float>{scale}),
                          bytes(f.type, rows, columns, none),
                          transposed ? bytes(f.type, columns, rows, none) : Bytes{},
                          bytes(OCT_U32, 1, 1, std::vector<std::uint32_t>{1}),
                          bytes(OCT_U64, 1, 3, std::vector<std::uint64_t>{100, 200, 300})};
  device.run(describe(OCT_QUANTIZE, o), &o);
  int wrong = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto at = std::size_t(r * columns + c), across = std::size_t(c * rows + r);
      const bool same = equal_codes(o[2].data[at], e.codes[at]) &&
                        (!transposed || equal_codes(o[3].data[across], e.codes[at]));
      if (same || ++wrong > 5) continue;
      ADD_FAILURE() << "element " << r << ", " << c << ": " << x[at] << " became " << int(o[2].data[at])
                    << (transposed ? " and " + std::to_string(int(o[3].data[across])) : "") << ", not "
                    << int(e.codes[at]);
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(values<std::uint32_t>(o[4])[0], std::max(1u, e.amax));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(values<std::uint64_t>(o[5])[std::size_t(i)], e.counters[i] + 100 * std::uint64_t(i + 1)) << i;
}

TEST(Fp8, CastsAreBitIdentical) {
  const Device device(conformance::plugin_under_test());
  for (const Format& f : {kE4m3, kE5m2})
    for (const bool narrow : {false, true})
      for (const float scale : {1.f, 0.3712f, 1024.f})
        for (const bool transposed : {false, true}) {
          expect_cast(device, f, narrow, 1, 1, transposed, scale);
          expect_cast(device, f, narrow, 67, 131, transposed, scale);
          expect_cast(device, f, narrow, 256, 512, transposed, scale);
        }
}

TEST(Fp8, WindowsLeaveTheRestAsItIs) {
  const Device device(conformance::plugin_under_test());
  const std::int64_t n = 3000, first = 1000, from = 1517, to = 2999;
  const std::vector<float> x = awkward(n);
  const std::vector<float> inside(x.begin() + (from - first), x.begin() + (to - first));
  const Expected e = expect(kE4m3, inside, 2.f);
  std::vector<Bytes> o = {bytes(OCT_F32, 1, n, x), bytes(OCT_F32, 1, 1, std::vector<float>{2.f}),
                          bytes(OCT_E4M3, 1, n, std::vector<std::uint8_t>(n, 0xab)), Bytes{},
                          bytes(OCT_U32, 1, 1, std::vector<std::uint32_t>{0})};
  device.run(describe(OCT_QUANTIZE, o, {1, first, from, to}), &o);
  for (std::int64_t i = 0; i < n; ++i) {
    const bool treated = first + i >= from && first + i < to;
    const int expected = treated ? e.codes[std::size_t(first + i - from)] : 0xab;
    ASSERT_TRUE(equal_codes(o[2].data[std::size_t(i)], expected)) << i;
  }
  EXPECT_EQ(values<std::uint32_t>(o[4])[0], e.amax);
  std::vector<Bytes> a = {o[0], bytes(OCT_U32, 1, 1, std::vector<std::uint32_t>{0xffffffffu})};
  device.run(describe(OCT_AMAX, a, {0, first, from, to, 1}), &a);
  EXPECT_EQ(values<std::uint32_t>(a[1])[0], e.amax);
}

TEST(Fp8, AmaxOrdersNanAboveInfinityAboveNumbers) {
  const Device device(conformance::plugin_under_test());
  std::vector<float> x(5000, -3.5f);
  const auto amax = [&] {
    std::vector<Bytes> o = {bytes(OCT_F32, 50, 100, x), bytes(OCT_U32, 1, 1, std::vector<std::uint32_t>{0})};
    device.run(describe(OCT_AMAX, o, {1}), &o);
    return values<std::uint32_t>(o[1])[0];
  };
  EXPECT_EQ(amax(), std::bit_cast<std::uint32_t>(3.5f));
  x[4999] = -INFINITY;
  EXPECT_EQ(amax(), 0x7f800000u);
  x[17] = NAN;
  EXPECT_GT(amax(), 0x7f800000u);
}

TEST(Fp8, ScalesFromHistoryAndCurrent) {
  const Device device(conformance::plugin_under_test());
  const auto bits = [](float v) { return std::bit_cast<std::uint32_t>(v); };
  // Rows: an ordinary one, one without entries, one whose amax is not finite, one that is tiny.
  const std::vector<Bytes> before = {
      bytes(OCT_U32, 4, 1, std::vector<std::uint32_t>{bits(2.f), bits(0.f), 0x7f800000u, bits(1e-42f)}),
      bytes(OCT_F32, 4, 3, std::vector<float>{1, 8, 4, 0, 0, 0, 5, 0, 0, 0, 0, 0}),
      bytes(OCT_F32, 4, 1, std::vector<float>{9, 9, 9, 9})};
  const auto run = [&](std::int64_t algorithm, std::int64_t calibrates) {
    std::vector<Bytes> o = before;
    device.run(describe(OCT_UPDATE_SCALE, o, {1, algorithm, calibrates}, {448}), &o);
    return std::pair(values<float>(o[1]), values<float>(o[2]));
  };
  const std::vector<float> rolled = {2, 1, 8, 0, 0, 0, 5, 0, 0, 1e-42f, 0, 0};
  EXPECT_EQ(run(OCT_AMAX_MAX, 0), std::pair(rolled, std::vector<float>{28, 9, 224.f / 5, 0x1p126f}));
  EXPECT_EQ(run(OCT_AMAX_MOST_RECENT, 0), std::pair(rolled, std::vector<float>{112, 9, 224.f / 5, 0x1p126f}));
  EXPECT_EQ(run(OCT_AMAX_FROZEN, 0), std::pair(rolled, std::vector<float>{9, 9, 9, 0x1p126f}));
  const std::vector<float> calibrated = {1, 8, 4, 0, 0, 0, 5, 0, 0, 1e-42f, 0, 0};
  EXPECT_EQ(run(OCT_AMAX_MAX, 1), std::pair(calibrated, std::vector<float>{9, 9, 9, 0x1p126f}));
  const auto current = [&](float amax, float entry) {
    std::vector<Bytes> o = {bytes(OCT_U32, 1, 1, std::vector<std::uint32_t>{bits(amax)}),
                            bytes(OCT_F32, 1, 2, std::vector<float>{0, entry}),
                            bytes(OCT_F32, 1, 1, std::vector<float>{77}),
                            bytes(OCT_F32, 1, 1, std::vector<float>{0})};
    device.run(describe(OCT_CURRENT_SCALE, o, {0}, {448}), &o);
    return values<float>(o[3])[0];
  };
  EXPECT_EQ(current(3, 0), 448.f / 3);
  EXPECT_EQ(current(3, 1), 77);
  EXPECT_EQ(current(0, 0), 1);
  EXPECT_EQ(current(INFINITY, 0), 1);
}

TEST(Fp8, LongHistoriesRoll) {
  const Device device(conformance::plugin_under_test());
  for (const std::int64_t length : {1, 127, 128, 129, 1000}) {
    std::vector<float> history(static_cast<std::size_t>(length));
    for (std::size_t i = 0; i < history.size(); ++i) history[i] = float(i + 1);
    std::vector<Bytes> o = {
        bytes(OCT_U32, 1, 1, std::vector<std::uint32_t>{std::bit_cast<std::uint32_t>(0.5f)}),
        bytes(OCT_F32, 1, length, history), bytes(OCT_F32, 1, 1, std::vector<float>{0})};
    device.run(describe(OCT_UPDATE_SCALE, o, {0, OCT_AMAX_MOST_RECENT, 0}, {448}), &o);
    history.insert(history.begin(), 0.5f);
    history.pop_back();
    EXPECT_EQ(values<float>(o[1]), history) << length;
    EXPECT_EQ(values<float>(o[2])[0], 896) << length;
  }
}

TEST(Fp8, TransposesOfAllSizes) {
  const Device device(conformance::plugin_under_test());
  const auto test = [&](auto element, oct_dtype type) {
    using V = decltype(element);
    for (const std::int64_t rows : {1, 63, 64, 130})
      for (const std::int64_t columns : {1, 65, 200}) {
        std::vector<V> in(std::size_t(rows * columns)), out = in;
        for (std::size_t i = 0; i < in.size(); ++i) in[i] = V(i * 2654435761u);
        std::vector<Bytes> o = {bytes(type, rows, columns, in), bytes(type, columns, rows, out)};
        device.run(describe(OCT_TRANSPOSE, o), &o);
        for (std::size_t i = 0; i < in.size(); ++i)
          out[i % std::size_t(columns) * std::size_t(rows) + i / std::size_t(columns)] = in[i];
        EXPECT_EQ(values<V>(o[1]), out) << rows << " x " << columns << " of " << sizeof(V);
      }
  };
  test(std::uint8_t{}, OCT_E4M3);
  test(std::uint16_t{}, OCT_BF16);
  test(std::uint32_t{}, OCT_F32);
}

/// d [m,n] = a b' / (scales) (+ bias) (+ d), a and b in FP8.
TEST(Fp8, Products) {
  const Device device(conformance::plugin_under_test());
  const std::int64_t m = 144, n = 208, k = 1024;
  std::mt19937 generator(3);
  for (const auto& [fa, fb] : {std::pair(kE4m3, kE4m3), std::pair(kE5m2, kE4m3), std::pair(kE4m3, kE5m2)})
    for (const bool f32 : {false, true})
      for (int bits = 0; bits < 8; ++bits) {
        const bool add = bits & 1, fast = bits & 2, bias = bits & 4;
        const oct_dtype result = f32 ? OCT_F32 : OCT_BF16;
        SCOPED_TRACE(testing::Message() << conformance::name(fa.type) << " " << conformance::name(fb.type)
                                        << " to " << conformance::name(result) << (add ? " add" : "")
                                        << (fast ? " fast" : "") << (bias ? " bias" : ""));
        const float scale_a = 3.f, scale_b = 0.625f;
        const auto codes = [&](const Format& f, std::int64_t count) {
          const Encoder encode(f);
          std::normal_distribution<float> normal;
          std::vector<std::uint8_t> c;
          for (std::int64_t i = 0; i < count; ++i) c.push_back(std::uint8_t(encode(2 * normal(generator))));
          return c;
        };
        const auto a = codes(fa, m * k), b = codes(fb, n * k);
        std::vector<float> old(std::size_t(m * n), 16), offset(std::size_t(n), 8);
        std::vector<float> old_copy = old, offset_copy = offset;
        std::vector<Bytes> o = {bytes(fa.type, m, k, a),
                                bytes(fb.type, n, k, b),
                                bytes(OCT_F32, 1, 1, std::vector<float>{scale_a}),
                                bytes(OCT_F32, 1, 1, std::vector<float>{scale_b}),
                                !bias ? Bytes{} : bytes(OCT_BF16, 1, n, to_bf16(&offset_copy)),
                                f32 ? bytes(OCT_F32, m, n, old) : bytes(OCT_BF16, m, n, to_bf16(&old_copy))};
        device.run(describe(OCT_GEMM, o, {0, 1, add, fast}), &o);
        std::vector<double> decoded_a, decoded_b;
        for (const int c : a) decoded_a.push_back(decode(fa, c));
        for (const int c : b) decoded_b.push_back(decode(fb, c));
        double largest = 0, error = 0;
        for (std::int64_t i = 0; i < m; i += 7)
          for (std::int64_t j = 0; j < n; j += 5) {
            double sum = 0;
            for (std::int64_t p = 0; p < k; ++p)
              sum += decoded_a[std::size_t(i * k + p)] * decoded_b[std::size_t(j * k + p)];
            sum = sum / scale_a / scale_b + (add ? 16 : 0) + (bias ? 8 : 0);
            const auto at = std::size_t(i * n + j);
            const double d =
                f32 ? double(values<float>(o[5])[at])
                    : double(std::bit_cast<float>(std::uint32_t(values<std::uint16_t>(o[5])[at]) << 16));
            largest = std::max(largest, std::fabs(sum));
            error = std::max(error, std::fabs(d - sum));
          }
        // About 14 bits are kept while the tensor cores accumulate.
        EXPECT_LE(error / largest, (f32 ? 0 : 8e-3) + (fast ? 4e-3 : 1e-3));
      }
}

}  // namespace
}  // namespace octachoron::gpu
