// Each reason from times that leave no other, and texts that depend on the times.
#include "core/trace/reasons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/trace/collective_table.h"
#include "tests/program/toy.h"
#include "tests/trace/synthetic.h"

namespace octachoron::trace_test {
namespace {

using testing::HasSubstr;
using testing::Not;

Verdict gather_of(const Step& step, const Timeline& timeline) {
  return verdict_of(step, judge(timeline), "gather");
}

TEST(Reasons, HiddenByIndependentWork) {
  const Step step(pattern(Pattern::independent));
  const Verdict verdict = gather_of(step, step.timeline({{0, 10}, {10, 18}, {10, 19}, {19, 25}}));
  EXPECT_EQ(verdict.reason, Reason::hidden);
  EXPECT_NEAR(verdict.hidden_s, 8e-3, 1e-12);
  EXPECT_EQ(verdict.why, "");
}

TEST(Reasons, ConsumerFollowsAtOnce) {
  const Step dependent(pattern(Pattern::dependent)), at_once(pattern(Pattern::wait_at_once));
  const Times times{{0, 10}, {10, 18}, {18, 20}, {20, 25}};
  const Verdict bound = gather_of(dependent, dependent.timeline(times));
  EXPECT_EQ(bound.reason, Reason::consumer_follows);
  EXPECT_THAT(bound.why,
              HasSubstr("'free' needs it and is next; nothing behind it in its segment is independent"));
  const Verdict early = gather_of(at_once, at_once.timeline(times));
  EXPECT_EQ(early.reason, Reason::consumer_follows);
  EXPECT_THAT(early.why, HasSubstr("'consumer' needs it and is next; 'free' behind it would be independent"));
}

TEST(Reasons, WindowTooShort) {
  const Step step(pattern(Pattern::independent));
  const Verdict verdict = gather_of(step, step.timeline({{0, 10}, {10, 18}, {10, 12}, {18, 25}}));
  EXPECT_EQ(verdict.reason, Reason::window_too_short);
  EXPECT_THAT(verdict.why, HasSubstr("'free' take 2.000 ms, the transfer 8.000 ms"));
  EXPECT_NEAR(verdict.exposed_s(), 6e-3, 1e-12);
}

TEST(Reasons, LatePeerIsNamed) {
  const Step step(pattern(Pattern::dependent));
  const Times mine{{0, 10}, {10, 18}, {18, 20}, {20, 25}};
  Times late = mine;
  late[1].begin_s = 16;
  const Verdict verdict = gather_of(step, step.timeline(mine, {{1, late}}));
  EXPECT_EQ(verdict.reason, Reason::late_peer);
  EXPECT_THAT(verdict.why, HasSubstr("rank 1 started it 6.000 ms after"));
  EXPECT_NEAR(verdict.transfer_s, 2e-3, 1e-12);
}

TEST(Reasons, SkewBesideComputationCostsNothing) {
  const Step step(pattern(Pattern::independent));
  const Times mine{{0, 10}, {10, 18}, {10, 19}, {19, 25}};
  Times late = mine;
  late[1].begin_s = 16;
  EXPECT_EQ(gather_of(step, step.timeline(mine, {{1, late}})).reason, Reason::hidden);
}

TEST(Reasons, SharedCores) {
  const Step step(pattern(Pattern::independent));
  const Times times{{0, 10}, {10, 18}, {18, 27}, {27, 30}};  // "free" could have run beside it, and did not
  const Verdict cores = gather_of(step, step.timeline(times, {}, {.concurrent = true, .shares_cores = true}));
  EXPECT_EQ(cores.reason, Reason::shared_resource);
  EXPECT_THAT(cores.why, HasSubstr("driven by the cores that compute"));
  const Verdict unknown =
      gather_of(step, step.timeline(times, {}, {.concurrent = true, .shares_cores = false}));
  EXPECT_EQ(unknown.reason, Reason::shared_resource);
  EXPECT_THAT(unknown.why, Not(HasSubstr("cores")));
}

// "free" of layer 0 runs alone, that of layer 1 beside the gather and half as fast.
TEST(Reasons, WorkBesideATransferIsSlowedDown) {
  toy::Writer writer({"compute", "tp", "dp"});
  const View a = writer.persistent("a", 8, 8), all = writer.buffer("all", 16, 8),
             z = writer.buffer("z", 8, 8), z0 = writer.buffer("z0", 8, 8), u = writer.buffer("u", 8, 8);
  writer.call(writer.segment("s"));
  writer.operation(OCT_GEMM, 0, "layers.0.free", {toy::in(a), toy::in(a), toy::out(z0)});
  writer.communicate(OCT_ALL_GATHER, 1, "gather", {Axis::tp, "activation"}, z0, all);
  writer.operation(OCT_GEMM, 0, "layers.1.free", {toy::in(a), toy::in(a), toy::out(z)});
  writer.operation(OCT_GEMM, 0, "consumer", {toy::in(all), toy::in(a), toy::out(u)});
  const Step step(writer.finish());
  const Verdict verdict = gather_of(step, step.timeline({{0, 5}, {5, 15}, {6, 16}, {16, 17}}));
  EXPECT_EQ(verdict.reason, Reason::shared_resource);
  EXPECT_THAT(verdict.why, HasSubstr("took 2.00 times what it takes alone"));
}

// Two gathers: the second has a window of its own, but its work waits for the first.
StepProgram two_gathers() {
  toy::Writer writer({"compute", "tp", "dp"});
  const View a = writer.persistent("a", 8, 8), y = writer.persistent("y", 8, 8),
             all = writer.buffer("all", 16, 8), weights = writer.buffer("weights", 16, 8),
             z = writer.buffer("z", 8, 8), u = writer.buffer("u", 8, 8);
  writer.call(writer.segment("s"));
  writer.communicate(OCT_ALL_GATHER, 1, "blocking", {Axis::tp, "activation"}, y, all);
  writer.communicate(OCT_ALL_GATHER, 2, "gather", {Axis::dp, "weight"}, a, weights);
  writer.operation(OCT_GEMM, 0, "free", {toy::in(all), toy::in(a), toy::out(z)});
  writer.operation(OCT_GEMM, 0, "consumer", {toy::in(weights), toy::in(a), toy::out(u)});
  return writer.finish();
}

TEST(Reasons, TheWorkWaitsForAnotherTransfer) {
  const Step step(two_gathers());
  const Verdict verdict = gather_of(step, step.timeline({{0, 8}, {0, 8}, {8, 17}, {17, 20}}));
  EXPECT_EQ(verdict.reason, Reason::other_wait);
  EXPECT_THAT(verdict.why, HasSubstr("'free', waited 8.000 ms for 'blocking'"));
}

TEST(Reasons, OneMessageAfterAnother) {
  const Step step(two_gathers());
  const Verdict verdict = gather_of(step, step.timeline({{0, 8}, {8, 16}, {16, 25}, {25, 30}}, {},
                                                        {.concurrent = false, .shares_cores = false}));
  EXPECT_EQ(verdict.reason, Reason::shared_resource);
  EXPECT_THAT(verdict.why, HasSubstr("travel one after another, and it waited for 'blocking'"));
}

// A table that was written down before looking at the times would pass all other tests.
TEST(Reasons, ShufflingTheTimesChangesTheText) {
  const Step step(pattern(Pattern::independent));
  Times times{{0, 10}, {10, 18}, {10, 16}, {18, 25}};
  const auto text_of = [&](const Times& of) {
    const Timeline timeline = step.timeline(of);
    return timeline_text(timeline, collective_table(timeline, judge(timeline)));
  };
  const std::string expected = text_of(times);
  EXPECT_THAT(expected, HasSubstr("75%"));
  std::vector<std::size_t> order{0, 1, 2, 3};
  int shuffles = 0;
  while (std::next_permutation(order.begin(), order.end())) {
    if (order[1] == 1)
      continue;  // the gather kept its time; which of the others has which is no matter of the text
    Times shuffled;
    for (const std::size_t i : order) shuffled.push_back(times[i]);
    EXPECT_NE(text_of(shuffled), expected);
    ++shuffles;
  }
  EXPECT_EQ(shuffles, 18);
}

TEST(Table, LayersShareARow) {
  toy::Writer writer({"compute", "tp", "dp"});
  const View a = writer.persistent("a", 8, 8), b = writer.persistent("b", 16, 8);
  writer.call(writer.segment("s"));
  for (const char* label : {"layers.0.input", "layers.12.input", "head.input"})
    writer.communicate(OCT_ALL_GATHER, 1, label, {Axis::tp, "activation"}, a, b);
  const Step step(writer.finish());
  const Timeline timeline = step.timeline({{0, 1}, {1, 3}, {3, 4}});
  const auto rows = collective_table(timeline, judge(timeline));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].label, "layers.*.input");
  EXPECT_EQ(rows[0].count, 2);
  EXPECT_EQ(rows[0].bytes, 2 * 64);
  EXPECT_NEAR(rows[0].transfer_s, 3e-3, 1e-12);
  EXPECT_EQ(rows[0].kind, "all_gather");
  EXPECT_EQ(rows[0].axes, "tp");
  EXPECT_EQ(rows[0].reason, Reason::consumer_follows);
}

}  // namespace
}  // namespace octachoron::trace_test
