// Events of a trace, one by one.
#include "core/trace/chrome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/json.h"
#include "tests/trace/synthetic.h"

namespace octachoron::trace_test {
namespace {

using testing::HasSubstr;

TEST(Chrome, EventsNameRankLaneAndReason) {
  const Step step(pattern(Pattern::dependent));
  const Times mine{{1, 10}, {10, 18}, {18, 20}, {20, 25}};
  Times late = mine;
  late[1].begin_s = 12;
  const Timeline timeline = step.timeline(mine, {{1, late}});
  const std::string events = chrome_events(timeline, judge(timeline), 1e-3);
  EXPECT_THAT(events, HasSubstr(R"("name":"rank 0: dp=0 tp=0 pp=0 cp=0")"));
  EXPECT_THAT(events, HasSubstr(R"({"name":"thread_name","ph":"M","pid":0,"tid":1,"args":{"name":"tp"}})"));
  EXPECT_THAT(
      events,
      HasSubstr(R"({"name":"first","cat":"gemm","ph":"X","pid":0,"tid":0,"ts":0.000,"dur":9000.000,)"));
  EXPECT_THAT(
      events,
      HasSubstr(
          R"({"name":"gather","cat":"communication","ph":"X","pid":0,"tid":1,"ts":11000.000,"dur":6000.000,)"));
  EXPECT_THAT(events, HasSubstr(R"("bytes":64,"group":"tp (activation): ranks 0 1")"));
  EXPECT_THAT(events, HasSubstr(R"("reason":"consumer follows at once")"));
  EXPECT_THAT(
      events,
      HasSubstr(
          R"({"name":"skew","cat":"skew","ph":"X","pid":0,"tid":1,"ts":9000.000,"dur":2000.000,"args":{"of":"gather","late_rank":1}})"));
  EXPECT_THAT(
      events,
      HasSubstr(
          R"({"name":"wait","cat":"wait","ph":"X","pid":0,"tid":0,"ts":9000.000,"dur":8000.000,"args":{"for":"gather","before":"free"}})"));
}

TEST(Json, TextsAreEscapedAndNumbersAreNumbers) {
  EXPECT_EQ(json_text("a\"b\\c\n"), R"("a\"b\\c\u000a")");
  EXPECT_EQ(json_number(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(json_number(std::nan("")), "null");
  EXPECT_EQ(json_number(-std::numeric_limits<double>::infinity()), "null");
}

TEST(Chrome, OperationsCarryTypeAndCostWhereItIsKnown) {
  const Step step(pattern(Pattern::dependent));
  Timeline timeline = step.timeline({{1, 10}, {10, 18}, {18, 20}, {20, 25}});
  EXPECT_THAT(chrome_events(timeline, judge(timeline), 0), testing::Not(HasSubstr("flops")));
  timeline.cost = [](const Issue& issue) { return OperationCost{issue.operation->label == "free" ? 2e9 : 0, 48}; };
  const std::string events = chrome_events(timeline, judge(timeline), 0);
  const auto at = events.find("\"name\":\"free\"");
  ASSERT_NE(at, std::string::npos);
  EXPECT_THAT(events.substr(at, events.find('\n', at) - at),
              HasSubstr("\"type\":\"f32\",\"flops\":2e+09,\"memory_bytes\":48}"));
}

}  // namespace
}  // namespace octachoron::trace_test
