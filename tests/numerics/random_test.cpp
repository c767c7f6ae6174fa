#include "core/numerics/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace octachoron {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(Random, PhiloxKnownAnswers) {  // of the Random123 distribution: philox4x32, 10 rounds
  EXPECT_EQ(philox(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, HashKnownAnswer) {
  // FNV-1a of "a" is af63dc4c8601ec8c
  EXPECT_EQ(hash64("a"), [] {
    std::uint64_t x = 0xaf63dc4c8601ec8cu + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }());
  EXPECT_NE(hash64("layers.1.norm1.weight"), hash64("layers.2.norm1.weight"));
}

TEST(Random, NormalFollowsItsDefinition) {
  const std::uint64_t hash = hash64("head.weight");
  const Words words = philox(5, hash, 3);
  const double radius = std::sqrt(-2 * std::log((words[2] + 1.0) / 4294967296.0));
  EXPECT_DOUBLE_EQ(normal(5, hash, 14), radius * std::cos(2 * M_PI * (words[3] / 4294967296.0)));
  EXPECT_DOUBLE_EQ(normal(5, hash, 15), radius * std::sin(2 * M_PI * (words[3] / 4294967296.0)));
}

TEST(Random, MomentsOfTheNormal) {
  const int n = 400000;
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < n; ++i) {
    const double x = normal(1, hash64("embedding.token.weight"), i);
    ASSERT_TRUE(std::isfinite(x));
    sum += x, squares += x * x, fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96.0 / n));
}

// L01: the assembled tensor is the same whoever drew which part of it.
TEST(Random, AssembledWeightsDoNotDependOnTheSplit) {
  const std::uint64_t hash = hash64("layers.0.attention.qkv.weight");
  for (const int parts : {1, 2, 4})
    for (const bool columns : {false, true})
      for (int part = 0; part < parts; ++part) {
        const TensorLayout layout =
            columns ? columns_split(24, 12, parts, part) : qkv_split(8, 2, 2, 12, parts, part);
        const std::int64_t middle = layout.local_size() / 2 + 1;
        std::vector<float> whole(std::size_t(layout.local_size())), halves(whole.size());
        fill_normal(9, hash, 0.02, layout, 0, layout.local_size(), whole.data());
        fill_normal(9, hash, 0.02, layout, 0, middle, halves.data());
        fill_normal(9, hash, 0.02, layout, middle, layout.local_size(), halves.data() + middle);
        EXPECT_EQ(whole, halves);
        for (const Piece& piece : pieces(layout, 0, layout.local_size(), Copies::all))
          for (std::int64_t i = 0; i < piece.size(); ++i) {
            const auto index =
                layout.global_index(piece.row + i / piece.columns, piece.column + i % piece.columns);
            ASSERT_EQ(whole[std::size_t(piece.offset + i)], float(0.02 * normal(9, hash, index)));
          }
      }
}

TEST(Random, PaddingIsZero) {
  const TensorLayout layout = rows_split(5, 2, 2, 1, 6);
  std::vector<double> values(6, 7);
  fill_normal(1, 2, 1.0, layout, 0, 6, values.data());
  EXPECT_NE(values[3], 0);
  EXPECT_EQ(values[4], 0);
  EXPECT_EQ(values[5], 0);
}

}  // namespace
}  // namespace octachoron
