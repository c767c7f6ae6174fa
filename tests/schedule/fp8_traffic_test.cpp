// Bytes a rank sends in a step with FP8, against formulas worked by hand and against BF16.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/report/plan_report.h"
#include "tests/schedule/small_model.h"

namespace octachoron {
namespace {

// The model of traffic_test: no padding, one sequence of S tokens a micro-batch.
constexpr std::int64_t L = 2, H = 128, S = 64, V = 256;

struct Case {
  std::int64_t dp, tp, micro_batches;
  bool sequence_parallel, head;
  bool current = false;

  std::string describe() const {
    return text(dp, "x", tp, ", ", micro_batches, " micro-batches, sp ", sequence_parallel, ", head ", head,
                ", current ", current);
  }
};

TrafficTable planned(const Case& c, const char* recipe = nullptr) {
  const Parameters parameters =
      small_model::parameters({"model.hidden=128", "model.sequence=64", "model.vocab=256",
                               text("grid.dp=", c.dp), text("grid.tp=", c.tp),
                               text("backend.precision=", recipe      ? recipe
                                                          : c.current ? "fp8-current"
                                                                      : "fp8-delayed"),
                               text("precision.head=", c.head && !recipe ? "fp8" : "bf16"),
                               text("batch.global=", c.dp * c.micro_batches),
                               text("parallel.sequence_parallel=", c.sequence_parallel ? "on" : "off")});
  return planned_traffic(small_model::programs(parameters).training.program, small_model::grid(parameters));
}

// As in traffic_test. Of the gathers those of products travel in one byte: two a block forward and four
// backward, two of the head; the embedding's and all sums in two.
PlannedTraffic activations(const Case& c) {
  const std::int64_t others = c.tp - 1, part = S * H / c.tp, statistics = others * S * 3 * 4;
  const std::int64_t cast = 6 * L + (c.head ? 2 : 0), all = 5 + 10 * L;
  PlannedTraffic sum{all, others * part * (cast + 2 * (all - cast))};
  if (!c.sequence_parallel) sum.calls = 2 + 4 * L, sum.bytes = sum.calls * 2 * others * part * 2;
  return {c.micro_batches * (sum.calls + 1), c.micro_batches * (sum.bytes + statistics)};
}

std::int64_t ring(std::int64_t bytes, std::int64_t ranks) {
  return 2 * bytes * (ranks - 1) / ranks;
}

TEST(Fp8Traffic, EqualsTheFormulas) {
  for (const Case c : {Case{2, 2, 1, true, false},
                       {2, 2, 3, true, true},
                       {2, 2, 3, false, true},
                       {1, 2, 2, true, false},
                       {2, 1, 2, true, true},
                       {1, 4, 1, true, false, true},
                       {2, 2, 2, false, false, true}}) {
    SCOPED_TRACE(c.describe());
    const TrafficTable found = planned(c);
    const auto expect = [&](const std::string& group, std::int64_t calls, std::int64_t bytes) {
      ASSERT_TRUE(found.count(group)) << group;
      EXPECT_EQ(found.at(group).calls, calls) << group;
      EXPECT_EQ(found.at(group).bytes, bytes) << group;
    };
    const std::int64_t linear = 12 * L * H * H / c.tp, table = V * H / c.tp;
    const std::int64_t vectors = 7 * L * H / c.tp + 6 * L * H + 2 * H + S * H;
    if (c.tp > 1) expect("tp (activation)", activations(c).calls, activations(c).bytes);
    if (c.dp > 1) {
      // Five buckets, of which that of the products in one byte; the tied table in both forms.
      const std::int64_t bytes = linear + 2 * (table + vectors) + (c.head ? table : 0);
      expect("dp x cp (weight)", 5 + c.head, bytes / c.dp * (c.dp - 1));
      expect("dp x cp (gradient)", 5, (linear + table + vectors) * 4 / c.dp * (c.dp - 1));
    }
    const std::int64_t rows = 3 * (4 * L + c.head), ranks = c.dp * c.tp;
    expect("dp x tp x cp (amax)", 1, ring(rows * 4, ranks));
    expect("dp x tp x cp (counters)", 1, ring(rows * 3 * 8, ranks));
    // Current scaling: one number for each cast of what TP ranks hold parts of.
    if (c.current) {
      const std::int64_t casts = c.micro_batches * L * (c.sequence_parallel ? 8 : 4);
      expect("tp (amax)", casts, casts * ring(4, c.tp));
    } else {
      EXPECT_FALSE(found.count("tp (amax)"));
    }
  }
}

TEST(Fp8Traffic, OfGathersIsHalfThatOfBf16) {
  const Case c{2, 2, 1, true, true};
  const TrafficTable cast = planned(c), plain = planned(c, "bf16");
  const std::int64_t part = S * H / 2;
  EXPECT_EQ(plain.at("tp (activation)").calls, cast.at("tp (activation)").calls);
  // All gathers but the embedding's become half as large.
  EXPECT_EQ(plain.at("tp (activation)").bytes - cast.at("tp (activation)").bytes, (6 * L + 2) * part);
  const Case without{2, 2, 1, true, false};
  EXPECT_EQ(plain.at("dp x cp (weight)").bytes - planned(without).at("dp x cp (weight)").bytes,
            12 * L * H * H / 2 / 2);
  EXPECT_EQ(plain.at("dp x cp (gradient)").bytes, cast.at("dp x cp (gradient)").bytes);
}

TEST(Fp8Traffic, OneRankSendsNothing) {
  EXPECT_TRUE(planned({1, 1, 2, true, true}).empty());
  EXPECT_TRUE(planned({1, 1, 2, true, true, true}).empty());
}

}  // namespace
}  // namespace octachoron
