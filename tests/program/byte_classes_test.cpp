// Classes of bytes against what each byte is in.
#include "core/program/byte_classes.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace octachoron {
namespace {

TEST(ByteClasses, BytesOfOneClassAreInTheSameBoxes) {
  std::mt19937 random(5);
  const auto below = [&](std::int64_t n) { return std::int64_t(random() % n); };
  for (int round = 0; round < 500; ++round) {
    std::vector<Box> boxes;
    for (int i = 0; i < 12; ++i) {
      const std::int64_t rows = 1 + below(5), row_bytes = below(12);
      boxes.push_back({below(40), rows, row_bytes, row_bytes + 1 + below(6)});
    }
    ByteClasses classes;
    for (const Box& box : boxes) classes.add(box);
    classes.divide();
    std::map<std::int64_t, std::set<int>> boxes_of;  // by byte
    for (int b = 0; b < int(boxes.size()); ++b)
      for (std::int64_t row = 0; row < boxes[b].rows; ++row)
        for (std::int64_t byte = 0; byte < boxes[b].row_bytes; ++byte)
          boxes_of[boxes[b].begin + row * boxes[b].pitch + byte].insert(b);
    std::set<std::set<int>> expected, found;  // which boxes meet
    for (const auto& [byte, in] : boxes_of) expected.insert(in);
    std::map<int, std::set<int>> in_boxes;  // by class
    for (int b = 0; b < int(boxes.size()); ++b)
      for (const int bytes : classes.classes_of(boxes[b])) {
        EXPECT_LT(bytes, classes.size());
        for (int same = 0; same < int(boxes.size()); ++same)
          if (&classes.classes_of(boxes[same]) == &classes.classes_of(boxes[b])) in_boxes[bytes].insert(same);
      }
    for (const auto& [bytes, in] : in_boxes) found.insert(in);
    EXPECT_EQ(found, expected);
    EXPECT_EQ(in_boxes.size(), expected.size());  // no class more than needed
  }
}

TEST(ByteClasses, RowsOfOneColumnAreOneClass) {
  ByteClasses classes;
  const Box whole{0, 1, 4096 * 24, 0}, left{0, 4096, 8, 24}, right{8, 4096, 16, 24};
  for (const Box& box : {whole, left, right}) classes.add(box);
  classes.divide();
  EXPECT_EQ(classes.classes_of(whole).size(), 2u);
  EXPECT_EQ(classes.classes_of(left).size(), 1u);
  EXPECT_EQ(classes.classes_of(right).size(), 1u);
}

}  // namespace
}  // namespace octachoron
