// Degrees and axes as they are written, and what is printed of them.
#include "core/scan/scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/scan/made_up.h"

namespace octachoron {
namespace {

using scan_test::made_up;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

template <class Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::usage);
    return error.what();
  }
  return "";
}

TEST(Scan, Degrees) {
  EXPECT_THAT(parse_degrees("1,2,4"), ElementsAre(1, 2, 4));
  EXPECT_THAT(parse_degrees("2,3"), ElementsAre(2, 3));
  const std::pair<const char*, const char*> wrong[] = {
      {"", "whole number"},      {"1", "one degree"},
      {"1,", "whole number"},    {"0,1", "whole number"},
      {"2,1", "ascend"},         {"1,1", "ascend"},
      {"1,x", "whole number"},   {"-1,2", "whole number"},
      {"1,2.5", "whole number"}, {"1,99999999999", "whole number"}};
  for (const auto& [list, why] : wrong)
    EXPECT_THAT(refusal([&] { parse_degrees(list); }), AllOf(HasSubstr(why), HasSubstr("--degrees 1,2,4")))
        << list;
}

TEST(Scan, Axes) {
  EXPECT_EQ(parse_scan_axis("tp"), Axis::tp);
  EXPECT_EQ(parse_scan_axis("dp"), Axis::dp);
  EXPECT_THAT(refusal([] { parse_scan_axis("tq"); }), HasSubstr("did you mean tp?"));
}

Scan scan() {
  Scan scan{
      .axis = "tp", .name = "a \"quoted\" run", .precision = "p", .rounds = 1, .degrees = {}, .verdict = {}};
  scan.degrees = {made_up(1, {60, 30, 0, 0, 10}), made_up(2, {30, 15, 3, 1, 5}),
                  made_up(4, {16, 8, 40, 2, 3})};
  scan.verdict = judge_scan("tp", scan.degrees);
  return scan;
}

TEST(Scan, TextHasTheNumbers) {
  const std::string text = scan_text(scan());
  EXPECT_THAT(text, AllOf(HasSubstr("54.00"), HasSubstr("1.85"), HasSubstr("93%"), HasSubstr("all_gather"),
                          HasSubstr("500 x 250 x 1000"), HasSubstr("past tp = 2"),
                          HasSubstr("reason: communication is exposed")));
  EXPECT_THAT(text, Not(HasSubstr("note:")));
  Scan crowded = scan();
  crowded.degrees[2].cores.of_node = 2;
  EXPECT_THAT(scan_text(crowded), HasSubstr("note: tp = 4: 4 ranks of 1 thread share the 2 cores"));
}

TEST(Scan, JsonHasTheVerdict) {
  EXPECT_THAT(scan_json(scan()), AllOf(HasSubstr("\"degree\":2,\"every_degree_pays\":false,\"next\":4"),
                                       HasSubstr("\"reason\":\"communication is exposed\""),
                                       HasSubstr("\"run\":\"a \\\"quoted\\\" run\"")));
}

}  // namespace
}  // namespace octachoron
