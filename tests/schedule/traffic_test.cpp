// Bytes a rank sends in a step, against formulas worked by hand.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/report/plan_report.h"
#include "tests/schedule/small_model.h"

namespace octachoron {
namespace {

// A model without padding, as in memory_test: L layers of width H, one sequence of S tokens a micro-batch,
// FP32.
constexpr std::int64_t L = 2, H = 128, S = 64, V = 256;

struct Case {
  std::int64_t dp, tp, micro_batches;
  bool sequence_parallel;
};

TrafficTable planned(const Case& c, const char* tied = "on") {
  const Parameters parameters = small_model::parameters(
      {"model.hidden=128", "model.sequence=64", "model.vocab=256", text("model.tie_embeddings=", tied),
       text("grid.dp=", c.dp), text("grid.tp=", c.tp), text("batch.global=", c.dp * c.micro_batches),
       text("parallel.sequence_parallel=", c.sequence_parallel ? "on" : "off")});
  return planned_traffic(small_model::programs(parameters).training.program,
                         small_model::grid(parameters));
}

// Forward and backward of one micro-batch over tp. With sequence parallelism: the embedding's sum is
// scattered, each block gathers and scatters twice, the head gathers; back, the head gathers its input again
// and scatters, a block gathers 4 times and scatters twice, the embedding gathers. Without: one sum in the
// embedding, two a block forward and two backward, one in the head. Each rank then gives its 3 statistics of
// each token to all.
PlannedTraffic activations(const Case& c) {
  const std::int64_t others = c.tp - 1, part = S * H * 4 / c.tp;
  const PlannedTraffic statistics{1, others * S * 3 * 4};
  PlannedTraffic linear;
  if (c.sequence_parallel)
    linear.calls = 1 + 4 * L + 1 + 2 + 6 * L + 1, linear.bytes = linear.calls * others * part;
  else
    linear.calls = 1 + 2 * L + 1 + 2 * L, linear.bytes = linear.calls * 2 * others * part;
  return {c.micro_batches * (linear.calls + statistics.calls),
          c.micro_batches * (linear.bytes + statistics.bytes)};
}

std::int64_t split_weights(const Case& c) {
  return (L * (12 * H * H + 7 * H) + V * H) / c.tp;
}
std::int64_t replicated_weights() {
  return L * 6 * H + 2 * H + S * H;
}

TEST(Traffic, EqualsTheFormulas) {
  for (const Case c : {Case{2, 2, 1, true},
                       {2, 2, 3, true},
                       {2, 2, 3, false},
                       {1, 2, 2, true},
                       {1, 2, 2, false},
                       {2, 1, 2, true}}) {
    const std::string where =
        text(c.dp, "x", c.tp, ", ", c.micro_batches, " micro-batches, sp ", c.sequence_parallel);
    TrafficTable expected;
    if (c.tp > 1) expected["tp (activation)"] = activations(c);
    const std::int64_t weights = (split_weights(c) + replicated_weights()) * 4;
    // Buckets: the tied token table; split and replicated tensors, each with and without weight decay.
    if (c.dp > 1) {
      expected["dp x cp (weight)"] = {5, weights / c.dp * (c.dp - 1)};
      expected["dp x cp (gradient)"] = {5, weights / c.dp * (c.dp - 1)};
      expected["dp x cp (control)"] = {1, 2 * 3 * 8 * (c.dp - 1) / c.dp};  // two sums of squares, the loss
    }
    // Gradients of replicated tensors are partial sums where each tp rank has its own tokens.
    if (c.tp > 1 && c.sequence_parallel)
      expected["tp (gradient)"] = {2, 2 * (replicated_weights() * 4 / c.dp) * (c.tp - 1) / c.tp};
    if (c.tp > 1) expected["tp (control)"] = {1, 2 * 8 * (c.tp - 1) / c.tp};

    const TrafficTable found = planned(c);
    EXPECT_EQ(found.size(), expected.size()) << where;
    for (const auto& [group, traffic] : expected) {
      ASSERT_TRUE(found.count(group)) << where << ": " << group;
      EXPECT_EQ(found.at(group).calls, traffic.calls) << where << ": " << group;
      EXPECT_EQ(found.at(group).bytes, traffic.bytes) << where << ": " << group;
    }
  }
}

TEST(Traffic, AnUntiedHeadAddsItsWeights) {
  const Case c{2, 2, 1, true};
  const std::int64_t head = V * H / c.tp * 4 / c.dp * (c.dp - 1);
  const TrafficTable tied = planned(c), untied = planned(c, "off");
  for (const char* group : {"dp x cp (weight)", "dp x cp (gradient)"})
    EXPECT_EQ(untied.at(group).bytes - tied.at(group).bytes, head) << group;
  EXPECT_EQ(untied.at("tp (activation)").bytes, tied.at("tp (activation)").bytes);
}

TEST(Traffic, OneRankSendsNothing) {
  EXPECT_TRUE(planned({1, 1, 2, true}).empty());
}

}  // namespace
}  // namespace octachoron
