// The programs that the product builds pass its own verifier, and what is broken in one of them is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/program/waits.h"
#include "core/schedule/overlap.h"
#include "tests/schedule/small_model.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using Strings = std::vector<std::string>;

TEST(Verify, EveryProgramOnEveryGrid) {
  for (const auto& [name, overrides] : small_model::settings()) {
    const Parameters parameters = small_model::parameters(overrides);
    const ProcessGrid grid = small_model::grid(parameters);
    const RankPrograms programs = small_model::programs(parameters, grid.size() - 1);
    EXPECT_THAT(small_model::all_problems(grid, programs.training), IsEmpty()) << name;
    EXPECT_THAT(small_model::all_problems(grid, programs.validation), IsEmpty()) << name;
  }
}

// Calls test(waits, i) for each wait of segments and calls, with it removed.
template <class Test>
void without_each_wait(StepProgram& program, Test test) {
  const auto each = [&](std::vector<Wait>& waits, int segment, int call) {
    for (std::size_t i = 0; i < waits.size(); ++i) {
      const Wait wait = waits[i];
      waits.erase(waits.begin() + i);
      test(wait, segment, call);
      waits.insert(waits.begin() + i, wait);
    }
  };
  for (int s = 0; s < int(program.segments.size()); ++s) each(program.segments[s].waits, s, -1);
  for (int c = 0; c < int(program.schedule.calls.size()); ++c)
    each(program.schedule.calls[c].waits, program.schedule.calls[c].segment, c);
}

// What describe() says of an operation in any call.
std::string named(const StepProgram& program, int segment, int index) {
  const Operation& operation = program.segments[segment].operations[index];
  return text("'", operation.label, "' (", name(operation.op), ", lane ", program.lanes[operation.lane].name,
              ", ", program.segments[segment].name);
}

// Returns how many were removed.
int expect_each_wait_is_needed(const std::string& setting, const Strings& overrides) {
  const Parameters parameters = small_model::parameters(overrides);
  PlannedProgram planned = small_model::programs(parameters).training;
  StepProgram& odd = planned.program;
  int removed = 0, of_calls = 0;
  without_each_wait(odd, [&](const Wait& wait, int segment, int call) {
    const int producer = wait.call == kSameCall
                             ? segment
                             : odd.schedule.calls[wait.call].segment;  // of the operation waited for
    const Strings problems = verify_memory({"rank 1", &odd}, planned.plan.placement);
    EXPECT_THAT(problems, Contains(AllOf(HasSubstr("rank 1: " + named(odd, segment, wait.consumer)),
                                         HasSubstr(named(odd, producer, wait.producer)),
                                         HasSubstr("on buffer '"), HasSubstr("without waiting for the "))))
        << setting << ": " << named(odd, segment, wait.consumer) << " <- "
        << named(odd, producer, wait.producer);
    ++removed;
    of_calls += call >= 0;
  });
  EXPECT_GT(of_calls, 2) << setting;
  EXPECT_THAT(small_model::all_problems(small_model::grid(parameters), planned), IsEmpty());
  return removed;
}

TEST(Verify, EachWaitRemovedOnOneRankIsNamed) {
  int removed = 0;
  for (const auto& [name, overrides] : small_model::settings())
    removed += expect_each_wait_is_needed(name, overrides);
  EXPECT_GT(removed, 1000);
}

struct Grid2x2 {
  explicit Grid2x2(Strings overrides = {}) {
    overrides.insert(overrides.begin(), {"grid.dp=2", "grid.tp=2", "parallel.bucket=0.01"});
    const Parameters parameters = small_model::parameters(overrides);
    grid = small_model::grid(parameters);
    common = small_model::programs(parameters).training.program;
    odd = common;
  }
  // With the waits that the builder would derive for what was changed.
  Strings problems(std::vector<int> odd_ranks, Queues queues) {
    derive_waits(odd);
    return small_model::order_problems(grid, {&common, &odd, std::move(odd_ranks)}, queues);
  }
  ProcessGrid grid;
  StepProgram common, odd;
};

bool same_group(const Operation& a, const Operation& b) {
  return a.peers.axes == b.peers.axes && a.peers.purpose == b.peers.purpose;
}

// Calls test(first, second) for neighbouring collectives of the odd program, swapped.
template <class Test>
void swap_neighbours(Grid2x2& ranks, Test test) {
  for (Segment& segment : ranks.odd.segments) {
    Operation* previous = nullptr;
    for (Operation& operation : segment.operations) {
      if (!is_communication(operation.op)) continue;
      if (previous) {
        const Operation first = *previous, second = operation;
        std::swap(*previous, operation);
        test(segment, first, second);
        std::swap(*previous, operation);
      }
      previous = &operation;
    }
  }
}

TEST(Verify, SwappedCollectivesOfOneGroupAreNamed) {
  Grid2x2 ranks;
  int swapped = 0, equal_bytes = 0;
  swap_neighbours(ranks, [&](const Segment& segment, const Operation& first, const Operation& second) {
    if (!same_group(first, second)) return;
    for (const Queues queues : {Queues::serial, Queues::chained, Queues::lanes}) {
      const Strings problems = ranks.problems({1}, queues);
      ASSERT_EQ(problems.size(), 1u) << segment.name << ": " << first.label << ", " << second.label;
      EXPECT_THAT(problems[0],
                  AllOf(HasSubstr("mismatch on axes " + to_string(first.peers.axes)),
                        HasSubstr("(common) at '"), HasSubstr("rank 1 (odd) at '" + second.label + "'")));
    }
    ++swapped;
    equal_bytes += first.op == second.op && message_view(first).bytes() == message_view(second).bytes();
  });
  EXPECT_GT(swapped, 50);
  EXPECT_GT(equal_bytes, 10);  // these are found by their labels alone
}

// Alone, a rank that starts two groups in another order only waits; with the rank at the opposite corner of
// the grid it closes a cycle over all four ranks.
TEST(Verify, CollectivesOfTwoGroupsInACycleAreADeadlock) {
  Grid2x2 ranks;
  int cycles = 0;
  swap_neighbours(ranks, [&](const Segment& segment, const Operation& first, const Operation& second) {
    if (same_group(first, second)) return;
    const std::string where = segment.name + ": " + first.label + ", " + second.label;
    EXPECT_THAT(ranks.problems({1}, Queues::serial), IsEmpty()) << where;
    for (const Queues queues : {Queues::serial, Queues::chained}) {
      const Strings problems = ranks.problems({1, 2}, queues);
      ASSERT_EQ(problems.size(), 1u) << where;
      EXPECT_THAT(problems[0], AllOf(HasSubstr("deadlock: rank "), HasSubstr("waits for rank "),
                                     HasSubstr("(odd) at '" + second.label + "'"),
                                     HasSubstr("(common) at '" + first.label + "'")))
          << where;
      ++cycles;
    }
  });
  EXPECT_GT(cycles, 4);
}

// Two ranks of one group that both are in another: on 4 ranks of tp, a group over dp x cp has one member, so
// a second purpose of the same axes is needed; then one rank suffices.
TEST(Verify, OneRankSufficesWhereTwoGroupsShareTwoRanks) {
  const Parameters parameters = small_model::parameters({"grid.tp=4"});
  const StepProgram common = small_model::programs(parameters).training.program;
  StepProgram odd = common;
  auto& operations = small_model::segment(odd, "reduce gradients").operations;
  auto& agree = small_model::segment(odd, "agree").operations;
  const auto reduce = std::find_if(operations.rbegin(), operations.rend(),
                                   [](const Operation& operation) { return is_communication(operation.op); });
  const auto control = std::find_if(
      agree.begin(), agree.end(), [](const Operation& operation) { return is_communication(operation.op); });
  ASSERT_NE(reduce, operations.rend());
  ASSERT_NE(control, agree.end());
  std::swap(*reduce, *control);  // across two segments
  derive_waits(odd);
  const ProcessGrid grid = small_model::grid(parameters);
  for (const Queues queues : {Queues::serial, Queues::chained}) {
    const Strings problems = small_model::order_problems(grid, {&common, &odd, {2}}, queues);
    EXPECT_THAT(problems,
                Contains(AllOf(HasSubstr("deadlock: rank "), HasSubstr("rank 2 (odd) at 'control.split'"),
                               HasSubstr("gradient.tp'"))));
  }
}

struct Span {
  int first = -1, last = -1;
};
std::vector<Span> spans(const StepProgram& program) {  // of accesses, by instance, in program order
  const Expansion expansion = expand(program);
  std::vector<Span> result(program.buffers.size() * program.instances_per_buffer());
  for (int i = 0; i < int(expansion.issues.size()); ++i)
    for_each_access(*expansion.issues[i].operation, [&](const View& view, Access) {
      Span& span = result[program.instance(view.buffer, program.schedule.calls[expansion.issues[i].call])];
      if (span.first < 0) span.first = i;
      span.last = i;
    });
  return result;
}

TEST(Verify, ABufferPlacedOnALiveOneIsNamed) {
  const Parameters parameters =
      small_model::parameters({"grid.tp=2", "batch.global=1"});  // values begin once
  PlannedProgram planned = small_model::programs(parameters).training;
  const StepProgram& program = planned.program;
  const std::vector<Span> live = spans(program);
  // A workspace holds many short values; a gradient bucket fills up part by part.
  const auto movable = [&](std::size_t id) {
    const Buffer& buffer = program.buffers[id];
    return live[id].first >= 0 && !buffer.persistent && buffer.memory != MemoryClass::host &&
           buffer.memory != MemoryClass::workspace && buffer.memory != MemoryClass::gradient;
  };
  int moved = 0;
  Placement& placement = planned.plan.placement;
  for (std::size_t a = 0; a < live.size(); ++a)
    for (std::size_t b = 0; b < live.size(); ++b) {
      if (!movable(a) || !movable(b) || !(live[a].first < live[b].first && live[b].first < live[a].last))
        continue;
      const std::int64_t before = placement[b];
      placement[b] = placement[a];
      const std::string first = program.buffers[a].name, second = program.buffers[b].name;
      ASSERT_THAT(verify_memory({"rank 1", &program}, placement),
                  Contains(testing::AnyOf(HasSubstr("'" + first + "'"), HasSubstr("'" + second + "'"))))
          << second << " on " << first;
      placement[b] = before;
      ++moved;
    }
  EXPECT_GT(moved, 500);
}

// Weight gradients run behind the start of a collective that they do not depend on: there the next operation
// after a collective is one.
int weight_gradients_in_windows(const StepProgram& program) {
  int found = 0;
  for (const Segment& segment : program.segments)
    for (std::size_t i = 1; i < segment.operations.size(); ++i)
      found += is_communication(segment.operations[i - 1].op) && segment.operations[i].op == OCT_GEMM &&
               segment.operations[i].label.ends_with(".wgrad");
  return found;
}

TEST(Verify, OverlapMovesWeightGradients) {
  for (const int tp : {1, 2})
    for (const char* sequence_parallel : {"on", "off"}) {
      const Strings overrides{text("grid.tp=", tp), text("parallel.sequence_parallel=", sequence_parallel)};
      const auto build = [&](const char* overlap) {
        Strings with = overrides;
        with.push_back(text("parallel.overlap=", overlap));
        const Parameters parameters = small_model::parameters(with);
        PlannedProgram planned = small_model::programs(parameters).training;
        EXPECT_THAT(small_model::all_problems(small_model::grid(parameters), planned), IsEmpty()) << overlap;
        return planned.program;
      };
      const StepProgram on = build("on");
      StepProgram off = build("off");
      const int gained = weight_gradients_in_windows(on) - weight_gradients_in_windows(off);
      // Column-parallel linears hide them behind the reduction of their own input gradient: 2 a layer and the
      // head, in both backward segments. Row-parallel ones have windows too.
      const int moved = overlap_weight_gradients(off);
      if (tp == 1) {
        EXPECT_EQ(moved, 0);
        EXPECT_EQ(gained, 0);
      } else {
        EXPECT_GE(moved, 2 * (2 * 2 + 1)) << sequence_parallel;
        EXPECT_GE(gained, 2 * (2 * 2 + 1)) << sequence_parallel;
      }
    }
}

}  // namespace
}  // namespace octachoron
