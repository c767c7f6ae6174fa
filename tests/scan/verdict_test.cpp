// How far a degree pays, and why not further, on made-up numbers.
#include "core/scan/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/scan/made_up.h"

namespace octachoron {
namespace {

using scan_test::made_up;
using scan_test::Terms;
using testing::AllOf;
using testing::HasSubstr;

const Terms kOne{60, 30, 0, 0, 10}, kTwo{30, 15, 3, 1, 5};  // 100 and 54 ms

std::vector<Degree> three(const Terms& last) {
  return {made_up(1, kOne), made_up(2, kTwo), made_up(4, last)};
}

TEST(Verdict, EveryDegreePays) {
  const ScanVerdict verdict = judge_scan("tp", three({15, 8, 4, 1, 3}));
  EXPECT_EQ(verdict.best, 2u);
  EXPECT_EQ(verdict.next, 2u);
  EXPECT_EQ(verdict.reason, ScanReason::none);
  EXPECT_THAT(verdict.answer, AllOf(HasSubstr("every degree pays up to tp = 4"), HasSubstr("31.0 ms")));
  EXPECT_EQ(verdict.why, "");
}

struct Case {
  const char* what;
  Terms last;
  int cores;        // of the node at the last degree
  double products;  // of the last degree over its fair share
  ScanReason reason;
  std::vector<std::string> words;  // of the sentence
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"exposed",
       {16, 8, 40, 2, 3},
       8,
       1,
       ScanReason::communication_exposed,
       {"40.0 ms of a step, before 3.00 ms", "all_gather over tp: 3 of them with 4096 bytes take 80.0 ms"}},
      {"small shapes",
       {50, 8, 4, 2, 3},
       8,
       1,
       ScanReason::small_shapes,
       {"products run at 5 GFLOP/s a rank, before 16.7",
        "500 x 250 x 1000 after 500 x 500 x 1000: 50.0 ms after 30.0 ms"}},
      {"products repeated",
       {50, 8, 4, 2, 3},
       8,
       2,
       ScanReason::repeated_work,
       {"0.5 GFLOP a step, before 0.5: they are not divided by 2"}},
      {"other repeated",
       {15, 50, 4, 2, 3},
       8,
       1,
       ScanReason::repeated_work,
       {"beside the products takes 50.0 ms, before 15.0 ms"}},
      {"cores",
       {31, 16, 4, 2, 3},
       2,
       1,
       ScanReason::shared_cores,
       {"4 ranks with 1 thread each compute on 2 cores: 0.5 a rank, before 1",
        "takes 47.0 ms, before 45.0 ms"}},
      {"cores, but transfers lose more",
       {31, 16, 40, 2, 3},
       2,
       1,
       ScanReason::communication_exposed,
       {"40.0 ms"}},
      {"late",
       {15, 8, 4, 30, 3},
       8,
       1,
       ScanReason::late_ranks,
       {"wait 30.0 ms for the last rank", "before 1.00 ms"}},
      {"host", {15, 8, 4, 2, 35}, 8, 1, ScanReason::host_work, {"take 35.0 ms of a step, before 5.00 ms"}},
  };
  return all;
}

TEST(Verdict, TheReasonIsTheTermThatLostMost) {
  for (const Case& each : cases()) {
    std::vector<Degree> degrees = three(each.last);
    degrees[1].cores.of_node = degrees[2].cores.of_node = each.cores;
    degrees[2].gemms[0].n = std::int64_t(250 * each.products);
    const ScanVerdict verdict = judge_scan("tp", degrees);
    EXPECT_EQ(verdict.best, 1u) << each.what;
    EXPECT_EQ(verdict.reason, each.reason) << each.what;
    EXPECT_THAT(verdict.answer, HasSubstr("past tp = 2 a further degree does not pay")) << each.what;
    for (const std::string& word : each.words) EXPECT_THAT(verdict.why, HasSubstr(word)) << each.what;
    double lost = 0;
    for (const double ms : verdict.lost_ms) lost += ms;
    EXPECT_NEAR(lost, degrees[2].step_ms() - degrees[1].step_ms() / 2, 1e-9) << each.what;
  }
}

// As with more data-parallel ranks: each has fewer of the same products.
TEST(Verdict, SlowerProductsOfTheSameShapeAreNotSmall) {
  std::vector<Degree> degrees = three({50, 8, 4, 2, 3});
  for (Degree& degree : degrees) degree.gemms[0].n = 100, degree.gemms[0].count = 4 / degree.degree;
  const ScanVerdict verdict = judge_scan("dp", degrees);
  EXPECT_EQ(verdict.reason, ScanReason::same_shapes_slower);
  EXPECT_THAT(verdict.why, HasSubstr("500 x 100 x 1000 after 500 x 100 x 1000: 50.0 ms after 30.0 ms"));
}

// A sentence that did not depend on the numbers would survive this.
TEST(Verdict, ShuffledNumbersChangeTheText) {
  const double terms[] = {15, 8, 4, 2, 60};
  std::vector<std::string> whys;
  for (int shift = 0; shift < 5; ++shift) {
    const auto at = [&](int term) { return terms[(term + shift) % 5]; };
    const ScanVerdict verdict = judge_scan("tp", three({at(0), at(1), at(2), at(3), at(4)}));
    whys.push_back(verdict.why);
  }
  for (std::size_t a = 0; a < whys.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) EXPECT_NE(whys[a], whys[b]);
  std::vector<Degree> turned = {made_up(1, kTwo), made_up(2, kOne), made_up(4, kTwo)};
  EXPECT_EQ(judge_scan("tp", turned).best, 0u);
  EXPECT_NE(judge_scan("tp", turned).answer, judge_scan("tp", three(kTwo)).answer);
}

TEST(Verdict, WhatIsWithinTheNoiseDoesNotPay) {
  const Terms little_less{29, 15, 3, 1, 5};  // 53 ms, after 54: 1 ms, and that of the noise is 1.5
  EXPECT_EQ(judge_scan("tp", three(little_less)).best, 1u);
  EXPECT_THAT(judge_scan("tp", three(little_less)).answer, HasSubstr("the same within the noise of 1.51 ms"));
  EXPECT_THAT(judge_scan("tp", three({40, 20, 3, 1, 5})).answer, HasSubstr("beyond the noise of 1.75 ms"));
  const Terms less{25, 15, 3, 1, 5};
  EXPECT_EQ(judge_scan("tp", three(less)).best, 2u);
  std::vector<Degree> noisy = three(less);
  noisy[2].steps_ms = {30, 40, 42, 49, 56, 58, 90};
  EXPECT_NEAR(noisy[2].noise_ms(), 2 * 0.93 * 18 / std::sqrt(7.0), 1e-9);
  EXPECT_EQ(judge_scan("tp", noisy).best, 1u);
}

// 2 alone does not pay, but 4 does: the answer is not cut short.
TEST(Verdict, ALaterDegreeThatPaysIsFound) {
  const std::vector<Degree> degrees = {made_up(1, kOne), made_up(2, {60, 30, 5, 0, 10}), made_up(4, kTwo)};
  EXPECT_EQ(judge_scan("tp", degrees).best, 2u);
}

TEST(Verdict, DevicesOfTheirOwnShareNoCores) {
  std::vector<Degree> degrees = three({50, 8, 4, 2, 3});
  for (Degree& degree : degrees) degree.cores = {.of_node = 0, .ranks_of_node = degree.degree, .threads = 64};
  EXPECT_FALSE(degrees[2].cores.shared());
  EXPECT_EQ(judge_scan("tp", degrees).reason, ScanReason::small_shapes);
}

TEST(Verdict, NumbersAreOfTheStepWithTheMedianTime) {
  Observations seen{.grid = made_up(2, kTwo).grid, .cores = {}, .tokens = 7, .steps = {}};
  for (const Terms& terms : {kTwo, kOne, Terms{10, 1, 2, 3, 4}})
    seen.steps.push_back({made_up(2, terms).split, made_up(2, terms).collectives, made_up(2, terms).gemms});
  const Degree degree = degree_of(seen, Axis::tp);
  EXPECT_EQ(degree.degree, 2);
  EXPECT_EQ(degree.steps_ms, (std::vector<double>{54, 100, 20}));
  EXPECT_EQ(degree.step_ms(), 54);
  EXPECT_EQ(degree.split.gemm_ms, 30);
  EXPECT_EQ(degree.gemms[0].time_ms, 30);
  EXPECT_EQ(degree.collectives[0].hidden_ms, 3);
}

TEST(Verdict, MedianOfSteps) {
  EXPECT_EQ(median_place({5, 1, 9, 3, 4}), 4u);
  EXPECT_EQ(median_place({2}), 0u);
  EXPECT_EQ(median_place({2, 1}), 0u);
}

}  // namespace
}  // namespace octachoron
