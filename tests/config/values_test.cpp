#include "core/config/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/suggest.h"

namespace octachoron {
namespace {

using testing::ElementsAre;

TEST(Values, NumbersParseWhole) {
  EXPECT_EQ(parse_integer("-12"), -12);
  for (const char* text : {"", " 1", "1 ", "+1", "1e3", "1,000", "1.0", "0x10", "9223372036854775808"})
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  EXPECT_EQ(parse_unsigned("18446744073709551615"), ~std::uint64_t(0));
  EXPECT_EQ(parse_unsigned("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_unsigned("-1"), std::nullopt);
  EXPECT_EQ(parse_real("1e-3"), 1e-3);
  EXPECT_EQ(parse_real("-.5"), -0.5);
  for (const char* text : {"", "1e-3x", "1,5", "nan", "inf", "-inf", "1e999", "0x1p3", "1 2"})
    EXPECT_EQ(parse_real(text), std::nullopt) << text;
}

TEST(Values, RealsReadBackTheSameFromTheirShortestText) {
  for (double value : {0.1, 1e-8, 3e-4, 1.0, 1.0 / 3, 1e300, 5e-324, 123456789.0})
    EXPECT_EQ(parse_real(format_real(value)), value) << format_real(value);
  EXPECT_EQ(format_real(1e-5), "1e-5");
  EXPECT_EQ(format_real(1e-10), "1e-10");
}

TEST(Values, Durations) {
  EXPECT_EQ(parse_duration("00:00:01"), 1);
  EXPECT_EQ(parse_duration("1:02:03"), 3723);
  EXPECT_EQ(parse_duration("100:00:00"), 360000);
  EXPECT_EQ(parse_duration("2-03:04:05"), 2 * 86400 + 3 * 3600 + 4 * 60 + 5);
  for (const char* text : {"", "5", "10:00", "00:60:00", "00:00:60", "1-24:00:00", "-01:00:00", "1-:00:00",
                           "0:0:0", "00:00:00x", "1-1-00:00:00", "00:-1:00", "00:00", "999999-00:00:00"})
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  for (std::int64_t seconds : {1, 3599, 86399, 86400, 100 * 86400 + 7})
    EXPECT_EQ(parse_duration(format_duration(seconds)), seconds);
}

TEST(Values, ListsHaveNoEmptyEntries) {
  EXPECT_THAT(*parse_list("a, b ,c"), ElementsAre("a", "b", "c"));
  for (const char* text : {"", "a,", ",a", "a,,b", " "}) EXPECT_EQ(parse_list(text), std::nullopt) << text;
  EXPECT_THAT(*parse_integers("3,-1"), ElementsAre(3, -1));
  EXPECT_EQ(parse_integers("3,x"), std::nullopt);
}

TEST(Values, StepListsAreSortedAndMerged) {
  EXPECT_THAT(*parse_steps("10, 1-3,2 - 4"), ElementsAre(1, 2, 3, 4, 10));
  EXPECT_EQ(format_steps({1, 2, 3, 5, 10, 11}), "1-3,5,10-11");
  EXPECT_EQ(format_steps({}), "");
  for (const char* text : {"0", "3-1", "1-", "-3", "1-2-3", "a", "1-9999999999", "1,1-1048576"})
    EXPECT_EQ(parse_steps(text), std::nullopt) << text;
  EXPECT_EQ(parse_steps("1-1048576")->size(), 1048576u);
}

TEST(Suggest, CountsEditsAndSwapsButNotCaseOrDashes) {
  EXPECT_EQ(edit_distance("layers", "layers"), 0);
  EXPECT_EQ(edit_distance("learning_rat", "learning_rate"), 1);
  EXPECT_EQ(edit_distance("lyaers", "layers"), 1);
  EXPECT_EQ(edit_distance("Kv-Heads", "kv_heads"), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(nearest_name("trian", {"plan", "train", "data"}), "train");
}

}  // namespace
}  // namespace octachoron
