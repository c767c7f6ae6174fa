// overlap() and covers() against sets of bytes.
#include "core/program/view.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>

#include "core/base/error.h"

namespace octachoron {
namespace {

using Bytes = std::bitset<256>;

Bytes bytes_of(const Box& box) {
  Bytes bytes;
  for (std::int64_t row = 0; row < box.rows; ++row)
    for (std::int64_t byte = 0; byte < box.row_bytes; ++byte) bytes.set(box.begin + row * box.pitch + byte);
  return bytes;
}

// Rows have a gap between them, as those of View::box() do; some boxes are empty.
Box random_box(std::mt19937& random, std::int64_t pitch) {
  const auto below = [&](int n) { return std::int64_t(random() % n); };
  const std::int64_t rows = below(3) ? 1 + below(6) : 1;
  const std::int64_t row_bytes = rows == 1 ? below(40) : below(int(pitch));
  return {below(40), rows, row_bytes, rows == 1 ? row_bytes : pitch};
}

TEST(Box, OverlapAndCoversAreExactForOnePitchOrFlat) {
  std::mt19937 random(1);
  int overlapping = 0, covering = 0;
  for (int round = 0; round < 200000; ++round) {
    const std::int64_t pitch = 2 + std::int64_t(random() % 16);
    const Box a = random_box(random, pitch), b = random_box(random, pitch);
    const Bytes x = bytes_of(a), y = bytes_of(b);
    ASSERT_EQ(overlap(a, b), (x & y).any()) << a.begin << " " << b.begin << " pitch " << pitch;
    ASSERT_EQ(covers(a, b), (y & ~x).none()) << a.begin << " " << b.begin << " pitch " << pitch;
    overlapping += overlap(a, b);
    covering += covers(a, b) && b.row_bytes > 0;
  }
  EXPECT_GT(overlapping, 10000);  // the boxes are near enough to each other to mean something
  EXPECT_GT(covering, 1000);
}

TEST(Box, DifferentPitchesErrOnTheSafeSide) {
  std::mt19937 random(2);
  for (int round = 0; round < 200000; ++round) {
    const Box a = random_box(random, 2 + random() % 16), b = random_box(random, 2 + random() % 16);
    const Bytes x = bytes_of(a), y = bytes_of(b);
    if ((x & y).any()) {
      ASSERT_TRUE(overlap(a, b));
    }
    if (covers(a, b)) {
      ASSERT_TRUE((y & ~x).none());
    }
  }
}

TEST(Box, NeighbouringColumnsDoNotOverlap) {
  const View qkv{0, 0, OCT_BF16, 4, 24, 24};
  const View q = qkv.column_range(0, 8), k = qkv.column_range(8, 8), v = qkv.column_range(16, 8);
  EXPECT_FALSE(overlap(q.box(), k.box()));
  EXPECT_FALSE(overlap(k.box(), v.box()));
  EXPECT_FALSE(overlap(q.row_range(1, 2).box(), v.row_range(0, 2).box()));
  EXPECT_TRUE(overlap(q.row_range(1, 2).box(), q.row_range(2, 2).box()));
  EXPECT_TRUE(covers(qkv.box(), k.box()));
  EXPECT_FALSE(covers(q.box(), qkv.box()));
  EXPECT_TRUE(covers(k.box(), k.row_range(1, 2).box()));
}

TEST(Box, AnEmptyViewTouchesNothing) {
  const View whole{0, 0, OCT_F32, 4, 6, 6};
  for (const View& empty : {whole.row_range(2, 0), whole.column_range(3, 0), whole.column_range(6, 0)}) {
    EXPECT_FALSE(overlap(empty.box(), whole.box()));
    EXPECT_FALSE(overlap(whole.box(), empty.box()));
    EXPECT_TRUE(covers(whole.column_range(0, 1).box(), empty.box()));
    EXPECT_FALSE(covers(empty.box(), whole.box()));
  }
}

TEST(View, PartsAreCheckedAndCounted) {
  const View whole{3, 16, OCT_BF16, 4, 6, 6};
  const View part = whole.row_range(1, 2).column_range(2, 3);
  EXPECT_EQ(part.offset, 16 + 2 * (6 + 2));
  EXPECT_EQ(part.bytes(), 12);
  EXPECT_FALSE(part.contiguous());
  EXPECT_TRUE(whole.row_range(1, 2).contiguous());
  EXPECT_EQ(whole.flat().columns, 24);
  EXPECT_THROW(whole.row_range(3, 2), Error);
  EXPECT_THROW(whole.column_range(-1, 2), Error);
  EXPECT_THROW(part.flat(), Error);
}

}  // namespace
}  // namespace octachoron
