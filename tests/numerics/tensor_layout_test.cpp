#include "core/numerics/tensor_layout.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "core/base/checked.h"

namespace octachoron {
namespace {

// (local flat offset, global index) of each element, element by element.
using Elements = std::vector<std::pair<std::int64_t, std::int64_t>>;

Elements brute_force(const TensorLayout& layout, std::int64_t begin, std::int64_t end, Copies copies) {
  Elements out;
  for (std::int64_t flat = begin; flat < end; ++flat) {
    const std::int64_t row = flat / layout.local_columns, column = flat % layout.local_columns;
    for (const RowBlock& block : layout.blocks)
      if (row >= block.local && row < block.local + block.rows && (block.owned || copies == Copies::all))
        out.emplace_back(
            flat, (block.global + row - block.local) * layout.global_columns + layout.first_column + column);
  }
  return out;
}

Elements by_pieces(const TensorLayout& layout, const std::vector<Piece>& list) {
  Elements out;
  for (const Piece& piece : list)
    for (std::int64_t i = 0; i < piece.size(); ++i)
      out.emplace_back(piece.offset + i,
                       layout.global_index(piece.row + i / piece.columns, piece.column + i % piece.columns));
  return out;
}

// All parts of one tensor.
using Parts = std::vector<TensorLayout>;

Parts random_tensor(std::mt19937& random) {
  const auto draw = [&](int from, int to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  const int parts = int(draw(1, 5));
  const std::int64_t columns = draw(1, 7), rows = draw(1, 20), kind = draw(0, 5);
  Parts out;
  for (int part = 0; part < parts; ++part) {
    if (kind == 0) out.push_back(replicated(rows, columns, part == 0));
    if (kind == 1) out.push_back(rows_split(rows, columns, parts, part, round_up(rows, parts)));
    if (kind == 2) out.push_back(columns_split(rows, columns * parts, parts, part));
    if (kind == 3) out.push_back(stacked_rows_split({2 * parts, 3 * parts, parts}, columns, parts, part));
    if (kind == 4) out.push_back(qkv_split(6 * parts, 2 * parts, 2, columns, parts, part));
    if (kind == 5) out.push_back(qkv_split(3 * parts, 1, 2, columns, parts, part));
  }
  return out;
}

TEST(TensorLayout, PiecesAreTheElementsOfTheRange) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial)
    for (const TensorLayout& layout : random_tensor(random)) {
      std::uniform_int_distribution<std::int64_t> place(0, layout.local_size());
      std::int64_t begin = place(random), end = place(random);
      if (begin > end) std::swap(begin, end);
      for (const Copies copies : {Copies::owned, Copies::all}) {
        const auto list = pieces(layout, begin, end, copies);
        EXPECT_LE(list.size(), 3 * layout.blocks.size());
        const Elements elements = by_pieces(layout, list);
        ASSERT_EQ(elements, brute_force(layout, begin, end, copies))
            << shape_text(layout) << " " << begin << " " << end;
        for (std::size_t i = 1; i < elements.size(); ++i)
          ASSERT_LT(elements[i - 1].second, elements[i].second);
      }
    }
}

TEST(TensorLayout, EveryElementIsOwnedOnceByAllParts) {
  std::mt19937 random(8);
  for (int trial = 0; trial < 500; ++trial) {
    const Parts parts = random_tensor(random);
    std::map<std::int64_t, int> owners;
    for (const TensorLayout& layout : parts)
      for (const auto& element : by_pieces(layout, pieces(layout, 0, layout.local_size())))
        ++owners[element.second];
    ASSERT_EQ(std::int64_t(owners.size()), parts[0].global_size());
    for (const auto& [index, count] : owners) ASSERT_EQ(count, 1) << "element " << index;
  }
}

TEST(TensorLayout, QkvRowsByHand) {
  // 4 query heads, 2 key and value heads of size 3 on 2 parts: rows q0 q1 q2 q3 k0 k1 v0 v1
  EXPECT_EQ(qkv_split(4, 2, 3, 8, 2, 1).blocks, (std::vector<RowBlock>{{0, 6, 6}, {6, 15, 3}, {9, 21, 3}}));
  // on 4 parts key head 1 is on parts 2 and 3, owned by 2
  EXPECT_EQ(qkv_split(4, 2, 3, 8, 4, 2).blocks, (std::vector<RowBlock>{{0, 6, 3}, {3, 15, 3}, {6, 21, 3}}));
  EXPECT_EQ(qkv_split(4, 2, 3, 8, 4, 3).blocks,
            (std::vector<RowBlock>{{0, 9, 3}, {3, 15, 3, false}, {6, 21, 3, false}}));
}

TEST(TensorLayout, VocabularyPaddingIsInternal) {
  const TensorLayout last = rows_split(5, 2, 2, 1, 6);  // 3 rows each, the last of part 1 is padding
  EXPECT_EQ(last.local_rows, 3);
  EXPECT_EQ(pieces(last, 0, 6),
            (std::vector<Piece>{{.row = 3, .column = 0, .rows = 2, .columns = 2, .offset = 0}}));
  EXPECT_TRUE(pieces(last, 4, 6).empty());
  EXPECT_TRUE(rows_split(2, 3, 4, 3, 4).blocks.empty());
}

TEST(TensorLayout, VectorsHaveOneDimension) {
  EXPECT_EQ(shape_text(as_vector(qkv_split(4, 2, 3, 1, 2, 0))), "[24]");
  EXPECT_EQ(shape_text(as_vector(replicated(1, 7))), "[7]");
  EXPECT_EQ(shape_text(replicated(2, 7)), "[2, 7]");
  EXPECT_THROW(as_vector(replicated(2, 7)), Error);
}

TEST(TensorLayout, SizesBeyond31Bits) {
  const TensorLayout layout = rows_split(128256, 32768, 2, 1);
  const auto list = pieces(layout, layout.local_size() - 1, layout.local_size());
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(layout.global_index(list[0].row, list[0].column), std::int64_t(128256) * 32768 - 1);
}

TEST(TensorLayout, UnevenSplitsAreRefused) {
  EXPECT_THROW(columns_split(3, 10, 4, 0), Error);
  EXPECT_THROW(qkv_split(8, 3, 4, 8, 4, 0), Error);  // 3 heads neither divide 4 parts nor are divided by them
  EXPECT_THROW(rows_split(4, 4, 2, 2), Error);
  EXPECT_THROW(pieces(replicated(2, 2), 0, 5), Error);
}

}  // namespace
}  // namespace octachoron
