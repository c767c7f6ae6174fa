// The accounting of a step by hand (contract, section 4).
#include "core/trace/intervals.h"

#include <gtest/gtest.h>

namespace octachoron {
namespace {

// Milliseconds.
Interval work(double begin, double end, int lane = 0, WorkKind kind = WorkKind::gemm) {
  Interval interval;
  interval.begin_s = interval.entered_s = begin / 1e3, interval.end_s = end / 1e3;
  interval.lane = lane, interval.kind = kind;
  return interval;
}
Interval message(double begin, double end, AxisSet axes, int lane = 1) {
  Interval interval = work(begin, end, lane, WorkKind::communication);
  interval.axes = axes;
  return interval;
}

void expect_identities(const Accounting& a) {
  EXPECT_EQ(a.idle, a.step - (a.compute + a.comm - a.overlap));
  EXPECT_EQ(a.exposed, a.comm - a.overlap);
  double axes = 0;
  for (const double ms : a.exposed_by_axis) axes += ms;
  EXPECT_NEAR(axes, a.exposed, 1e-9);
}

TEST(Intervals, UnionAndIntersection) {
  EXPECT_DOUBLE_EQ(union_length({{3, 4}, {0, 2}, {1, 2.5}, {4, 5}, {9, 9}}), 2.5 + 2);
  EXPECT_DOUBLE_EQ(intersection_length({{0, 2}, {1, 4}, {6, 8}}, {{3, 7}, {3.5, 4}}), 1 + 1);
  EXPECT_EQ(merged({{0, 1}, {1, 2}}).size(), 1u);
}

TEST(Intervals, DifferenceLeavesWhatIsOutside) {
  const auto left = difference(merged({{0, 10}, {20, 30}}), merged({{-1, 1}, {2, 3}, {9, 21}, {29, 40}}));
  ASSERT_EQ(left.size(), 3u);
  EXPECT_DOUBLE_EQ(length(left), 1 + 6 + 8);
}

TEST(Accounting, TwelveAndFiveLessThreeIsFourteen) {
  const Interval intervals[] = {work(0, 12), message(9, 14, Axis::tp)};
  const Accounting a = account(intervals, 14e-3);
  EXPECT_NEAR(a.compute, 12, 1e-12);
  EXPECT_NEAR(a.comm, 5, 1e-12);
  EXPECT_NEAR(a.overlap, 3, 1e-12);
  EXPECT_NEAR(a.compute + a.comm - a.overlap, 14, 1e-12);
  EXPECT_NEAR(a.idle, 0, 1e-12);
  EXPECT_NEAR(a.exposed, 2, 1e-12);
  EXPECT_NEAR(a.exposed_by_axis[int(Axis::tp)], 2, 1e-12);
  expect_identities(a);
}

TEST(Accounting, WhatIsNeitherIsIdle) {
  // Two lanes compute at once, a copy from the host stands alone, and the host takes 4 ms before.
  const Interval intervals[] = {work(4, 10), work(8, 12, 2, WorkKind::compute), message(11, 13, Axis::dp),
                                work(13, 15, 3, WorkKind::host_copy)};
  const Accounting a = account(intervals, 16e-3);
  EXPECT_NEAR(a.compute, 8, 1e-12);
  EXPECT_NEAR(a.comm, 2, 1e-12);
  EXPECT_NEAR(a.overlap, 1, 1e-12);
  EXPECT_NEAR(a.idle, 16 - 9, 1e-12);
  expect_identities(a);
}

TEST(Accounting, SkewIsIdle) {
  Interval gather = message(6, 9, Axis::tp);
  gather.entered_s = 2e-3;  // waits 4 ms for a peer
  const Interval intervals[] = {work(0, 2), gather};
  const Accounting a = account(intervals, 9e-3);
  EXPECT_NEAR(a.comm, 3, 1e-12);
  EXPECT_NEAR(a.idle, 4, 1e-12);
  expect_identities(a);
}

TEST(Accounting, ExposedTimeBelongsToItsAxisOnce) {
  const Interval intervals[] = {work(0, 2), message(1, 5, Axis::tp),  // alone 2..4
                                message(4, 7, Axis::dp, 2),           // alone 5..7, with tp 4..5
                                message(8, 9, Axis::dp | Axis::cp, 2), message(9, 10, Axis::pp, 3)};
  const Accounting a = account(intervals, 10e-3);
  EXPECT_NEAR(a.exposed_by_axis[int(Axis::tp)], 2, 1e-9);
  EXPECT_NEAR(a.exposed_by_axis[int(Axis::dp)], 2, 1e-9);
  EXPECT_NEAR(a.exposed_by_axis[int(Axis::pp)], 1, 1e-9);
  EXPECT_EQ(a.exposed_by_axis[int(Axis::cp)], 0);
  EXPECT_NEAR(a.exposed_by_axis[kMixed], 2, 1e-9);
  expect_identities(a);
}

TEST(Accounting, StallIsTheWaitingOfLanesWithGemms) {
  Interval gemm = work(5, 6), copy = work(5, 6, 3, WorkKind::host_copy);
  gemm.stalled_s = 2e-3, copy.stalled_s = 7e-3;
  const Interval intervals[] = {work(0, 3), gemm, copy};
  EXPECT_NEAR(account(intervals, 6e-3).stall, 2, 1e-12);
}

}  // namespace
}  // namespace octachoron
