#include "core/numerics/checksum.h"

#include <gtest/gtest.h>

#include <vector>

namespace octachoron {
namespace {

TEST(Checksum,
     SplitmixKnownAnswers) {  // the first outputs of the published generator with states 0 and 1234567
  EXPECT_EQ(splitmix64(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(splitmix64(1234567), 6457827717110365317u);
}

TEST(Checksum, ByHand) {
  const float values[] = {1.0f, -0.0f};
  EXPECT_EQ(checksum(3, values, 2),
            splitmix64((3ull << 32) + 0x3f800000u) + splitmix64((4ull << 32) + 0x80000000u));
}

TEST(Checksum, PartsAddUp) {
  std::vector<float> values(60);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i) * 0.1f - 2;
  const std::uint64_t whole = checksum(0, values.data(), 60);
  for (const int parts : {2, 3, 5}) {
    std::uint64_t sum = 0;
    for (int part = 0; part < parts; ++part) {
      const TensorLayout layout = columns_split(2, 30, parts, part);
      std::vector<float> local;
      for (std::int64_t i = 0; i < layout.local_size(); ++i)
        local.push_back(values[std::size_t(
            layout.global_index(i / layout.local_columns, layout.first_column + i % layout.local_columns))]);
      for (const std::int64_t begin : {0, 7})  // two shards that meet in the middle of a row
        for (const Piece& piece : pieces(layout, begin == 0 ? 0 : 5, begin == 0 ? 5 : layout.local_size()))
          sum += checksum(layout, piece, local.data() + piece.offset);
    }
    EXPECT_EQ(sum, whole);
  }
}

TEST(Checksum, SeesSwapsAndSigns) {
  const float a[] = {1, 2, 0.0f}, swapped[] = {2, 1, 0.0f}, negative[] = {1, 2, -0.0f};
  EXPECT_NE(checksum(0, a, 3), checksum(0, swapped, 3));
  EXPECT_NE(checksum(0, a, 3), checksum(0, negative, 3));
}

}  // namespace
}  // namespace octachoron
