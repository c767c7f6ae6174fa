/// Which records belong to which span, what spans without work get, and the clocks: pure functions, no GPU.
#include "plugins/device/cuda/span_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace octachoron::cuda {
namespace {

bool operator==(const Period& a, const Period& b) {
  return a.begin_ns == b.begin_ns && a.end_ns == b.end_ns;
}

TEST(Periods, CoverAllWorkOfTheirCallsWhateverTheOrderOfRecords) {
  // Span 1: two kernels of two calls. Span 2: none. Span 3: a copy known by the runtime's number. Call 50: of
  // no span.
  std::vector<Work> works = {
      {10, 0, 0, {100, 200}}, {11, 0, 0, {150, 260}}, {77, 30, 0, {400, 500}}, {50, 0, 0, {1, 9999}}};
  std::vector<Link> links = {{10, 1}, {11, 1}, {12, 1}, {20, 2}, {30, 3}};
  std::minstd_rand random(1);
  for (int k = 0; k < 20; ++k) {
    std::shuffle(works.begin(), works.end(), random);
    std::shuffle(links.begin(), links.end(), random);
    const std::vector<Period> found = periods(works, links, {}, 3);
    ASSERT_EQ(found.size(), 3u);
    EXPECT_TRUE(found[0] == (Period{100, 260}));
    EXPECT_TRUE(found[1].empty());
    EXPECT_TRUE(found[2] == (Period{400, 500}));
  }
}

TEST(Periods, TimesThatWereNotTakenAndUnknownSpansAreLeftOut) {
  const std::vector<Work> works = {{1, 0, 0, {}}, {1, 0, 0, {5, 7}}, {2, 0, 0, {1, 2}}, {3, 0, 0, {1, 2}}};
  const std::vector<Link> links = {{1, 1}, {2, 9}, {3, 0}};
  const std::vector<Period> found = periods(works, links, {}, 1);
  EXPECT_TRUE(found[0] == (Period{5, 7}));
}

TEST(Periods, TheWorkOfAGraphBelongsToTheLaunchAndBetterToItsSpans) {
  // Calls 5 and 6 launch the same graph, in spans 1 and 4; its own spans are 2, 3 and 5, 6. Node 99 is in
  // none.
  const std::vector<Work> works = {{5, 0, 41, {10, 20}},  {5, 0, 42, {15, 60}},   {5, 0, 43, {30, 40}},
                                   {5, 0, 99, {1, 90}},   {6, 0, 41, {110, 120}}, {6, 0, 43, {130, 140}},
                                   {7, 0, 41, {300, 310}}};
  const std::vector<Link> links = {{5, 1}, {6, 4}, {7, 7}};
  const auto nodes = std::make_shared<const NodeSpans>(NodeSpans{{41, 0}, {42, 0}, {43, 1}});
  const std::vector<Period> found = periods(works, links, {{1, nodes}, {4, nodes}}, 7);
  EXPECT_TRUE(found[0] == (Period{1, 90}));
  EXPECT_TRUE(found[1] == (Period{10, 60}));
  EXPECT_TRUE(found[2] == (Period{30, 40}));
  EXPECT_TRUE(found[3].empty());
  EXPECT_TRUE(found[4] == (Period{110, 120}));
  EXPECT_TRUE(found[5] == (Period{130, 140}));
  EXPECT_TRUE(found[6] == (Period{300, 310})) << "no launch of a graph with spans";
}

TEST(Empty, SpansGetTheEndOfTheOneBeforeOnTheirLane) {
  const int a = 0, b = 0, c = 0;
  std::vector<Period> all = {{}, {100, 200}, {}, {}, {50, 60}, {}, {}};
  const std::vector<const void*> lanes = {&a, &a, &b, &a, &b, &b, &c};
  fill_empty(all, lanes);
  EXPECT_TRUE(all[0] == (Period{100, 100})) << "before the first of its lane";
  EXPECT_TRUE(all[2] == (Period{50, 50}));
  EXPECT_TRUE(all[3] == (Period{200, 200}));
  EXPECT_TRUE(all[5] == (Period{60, 60}));
  EXPECT_TRUE(all[6] == (Period{50, 50})) << "a lane without any work: the first of all";
  std::vector<Period> none(2);
  fill_empty(none, std::vector<const void*>{&a, &b});
  EXPECT_TRUE(none[0].empty());
}

/// A reading in the middle of a kernel of 2 us, of a clock that is `ahead` and runs faster by `drift`.
ClockSample reading(std::int64_t at_ns, std::int64_t ahead_ns, double drift = 0) {
  return {{at_ns - 1000, at_ns + 1000}, at_ns + ahead_ns + std::int64_t(drift * double(at_ns))};
}

TEST(Clock, IsAheadByTheMedianOfItsReadings) {
  const std::vector<ClockSample> early = {reading(1000000, 500), reading(1010000, 90000),
                                          reading(1020000, 510), reading(1030000, 490),
                                          reading(1040000, -70000)};
  EXPECT_DOUBLE_EQ(ClockLine(early, {}).seconds(2000000), 2000500e-9);
  EXPECT_DOUBLE_EQ(ClockLine({}, early).seconds(2000000), 2000500e-9);
}

TEST(Clock, DriftIsFollowedBetweenTheReadings) {
  const double drift = 20e-6;  // 20 us in a second
  const ClockLine line({reading(1000000000, 300, drift)}, {reading(3000000000, 300, drift)});
  for (const std::int64_t at : {1000000000ll, 1500000000ll, 2000000000ll, 3000000000ll})
    EXPECT_NEAR(line.seconds(at), double(at) * 1e-9 * (1 + drift) + 300e-9, 2e-9) << at;
}

TEST(Clock, TimesOfTheDayKeepTheirMicroseconds) {
  const std::int64_t now = 1795000000000000000;  // as stamps have them: a double of seconds resolves 0.24 us
  const ClockLine line({reading(now, -1000000)}, {reading(now + 1000000000, -1000000)});
  EXPECT_NEAR(line.seconds(now + 500000000) - line.seconds(now), 0.5, 1e-6);
}

}  // namespace
}  // namespace octachoron::cuda
