// From records to intervals: skew, stalls, messages that belong together, clocks.
#include "core/trace/timeline.h"

#include <gtest/gtest.h>

#include "core/trace/clocks.h"
#include "tests/program/toy.h"
#include "tests/trace/synthetic.h"

namespace octachoron::trace_test {
namespace {

const Times kTimes{{0, 10}, {10, 18}, {10, 16}, {18, 25}};  // first, gather, free, consumer

TEST(Timeline, ACollectiveBeginsWithTheLatestOfItsGroup) {
  const Step step(pattern(Pattern::independent));
  Times late = kTimes;
  late[1].begin_s = 15;
  const Timeline timeline = step.timeline(kTimes, {{1, late}});  // rank 1 is its neighbour along tp
  const Interval& gather = timeline.intervals[1];
  EXPECT_DOUBLE_EQ(gather.entered_s, 10e-3);
  EXPECT_DOUBLE_EQ(gather.begin_s, 15e-3);
  EXPECT_EQ(gather.late_rank, 1);
  EXPECT_EQ(gather.axes, AxisSet(Axis::tp));
}

TEST(Timeline, RanksOfOtherGroupsDoNotMatter) {
  const Step step(pattern(Pattern::independent));
  Times late = kTimes;
  late[1].begin_s = 15;
  const Timeline timeline = step.timeline(kTimes, {{2, late}, {3, late}});
  EXPECT_DOUBLE_EQ(timeline.intervals[1].begin_s, 10e-3);
  EXPECT_EQ(timeline.intervals[1].late_rank, -1);
}

TEST(Timeline, ACollectiveNeverBeginsAfterItsEnd) {
  const Step step(pattern(Pattern::independent));
  Times late = kTimes;
  late[1].begin_s = 30;  // a clock that is wrong
  EXPECT_DOUBLE_EQ(step.timeline(kTimes, {{1, late}}).intervals[1].begin_s, 18e-3);
}

TEST(Timeline, AStallEndsWithTheEventItWaitsFor) {
  const Step step(pattern(Pattern::independent));
  Times times = kTimes;
  times[3] = {19, 25};  // woken 1 ms late: that is no stall
  const Timeline timeline = step.timeline(times);
  EXPECT_NEAR(timeline.intervals[3].stalled_s, 2e-3,
              1e-12);  // from the end of "free" at 16 to that of the gather
  EXPECT_EQ(timeline.intervals[3].waited_for, 1);
  EXPECT_EQ(timeline.intervals[2].stalled_s, 0);
}

TEST(Timeline, SendsMeetReceivesAndRepeatsMeetInOrder) {
  toy::Writer sender({"compute", "pp"}), receiver({"compute", "pp"});
  const View x = sender.persistent("x", 4, 4), y = receiver.persistent("y", 4, 4);
  sender.segment("s"), receiver.segment("s");
  sender.communicate(OCT_SEND, 1, "block", {Axis::dp, "activation", 1}, x, {});
  receiver.communicate(OCT_RECEIVE, 1, "block", {Axis::dp, "activation", -1}, {}, y);
  for (toy::Writer* writer : {&sender, &receiver}) writer->call(0), writer->call(0);
  const Step a(sender.finish()), b(receiver.finish());
  const auto keys = [](const Step& step) {
    const OperationRecord records[] = {{&step.expansion.issues[0], 1, 2}, {&step.expansion.issues[1], 3, 4}};
    return communication_begins(step.program, step.expansion, records, 0);
  };
  const auto sent = keys(a), received = keys(b);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_NE(sent[0].key, sent[1].key);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(sent[i].key, received[i].key);
    EXPECT_EQ(sent[i].begin_s, received[i].begin_s);  // the first with the first
  }
}

TEST(Clocks, TheOffsetIsWithinItsBounds) {
  // The other clock is 5 s behind; meetings take 1 to 3 ms, unevenly.
  const std::vector<double> mine_before{105.000, 106.000, 107.000}, mine_after{105.004, 106.002, 107.003};
  const std::vector<double> other_before{100.001, 101.0005, 102.002},
      other_after{100.003, 101.0015, 102.0035};
  const ClockOffset offset = offset_between(mine_before, mine_after, other_before, other_after);
  EXPECT_LE(std::abs(offset.offset_s - 5), offset.error_s);
  EXPECT_LE(offset.error_s, 1.6e-3);  // of the best round, not of the worst
}

}  // namespace
}  // namespace octachoron::trace_test
