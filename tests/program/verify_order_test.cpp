// Communication of all ranks: what completes, and how faults in it are named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "tests/program/toy.h"

namespace octachoron {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using toy::in;
using toy::out;
using toy::Writer;

constexpr Queues kAllQueues[] = {Queues::serial, Queues::chained, Queues::lanes};

// A 2x2 grid of tp and dp; rank (tp 1, dp 0) has a program of its own, equal at first.
struct Grid2x2 {
  Grid2x2() {
    programs.assign(2, toy::model_step({.layers = 2, .micro_batches = 2}, 0));
    roles = {{"common", &programs[0]}, {"odd", &programs[1]}};
  }
  OrderReport report(Queues queues) const {
    return verify_order(
        {{2, 1, 2, 1}}, roles,
        [](const Coordinate& at) {
          return at == Coordinate{1, 0, 0, 0};
        },
        queues);
  }
  Segment& segment(const std::string& name) {
    for (Segment& segment : programs[1].segments)
      if (segment.name == name) return segment;
    throw std::runtime_error(name);
  }
  Operation& operation(const std::string& in_segment, oct_op op) {
    for (Operation& operation : segment(in_segment).operations)
      if (operation.op == op) return operation;
    throw std::runtime_error(in_segment);
  }
  std::vector<StepProgram> programs;
  std::vector<Role> roles;
};

TEST(VerifyOrder, TheModelCompletes) {
  Grid2x2 grid;
  for (const Queues queues : kAllQueues) {
    const OrderReport report = grid.report(queues);
    EXPECT_THAT(report.problems, IsEmpty()) << name(queues);
    EXPECT_EQ(report.ranks, 4);
    EXPECT_EQ(report.simulated, 4);
    const std::int64_t issues = std::int64_t(expand(grid.programs[0]).issues.size());
    EXPECT_EQ(report.issues, 4 * issues);
  }
}

TEST(VerifyOrder, SwappedCollectivesOfOneGroupAreNamed) {
  Grid2x2 grid;
  int swapped = 0;
  for (Segment& segment : grid.programs[1].segments) {
    Operation* previous = nullptr;
    for (Operation& operation : segment.operations) {
      if (!is_communication(operation.op)) continue;
      if (previous && previous->lane == operation.lane) {
        const std::string first = previous->label, second = operation.label;
        std::swap(*previous, operation);
        const auto problems = grid.report(Queues::serial).problems;
        ASSERT_EQ(problems.size(), 1u) << segment.name << ": " << first << ", " << second;
        EXPECT_THAT(problems[0], HasSubstr("mismatch on axes "));
        EXPECT_THAT(problems[0], HasSubstr("(common) at '"));
        EXPECT_THAT(problems[0], HasSubstr("rank 1 (odd) at '" + second + "'"));
        std::swap(*previous, operation);
        ++swapped;
      }
      previous = &operation;
    }
  }
  EXPECT_GE(swapped, 11);
}

// Two ranks, two groups over both, started in opposite order: lanes of their own complete, a chain does not.
TEST(VerifyOrder, DifferentGroupsInACycleAreADeadlock) {
  const auto program = [](bool tp_first) {
    Writer writer({"compute", "tp", "dp"});
    const View a = writer.persistent("a", 1, 64), b = writer.persistent("b", 1, 64);
    writer.segment("only");
    const auto reduce_a = [&] { writer.communicate(OCT_ALL_REDUCE, 1, "a", {Axis::tp, "p", 0}, a, a); };
    const auto reduce_b = [&] {
      writer.communicate(OCT_ALL_REDUCE, 2, "b", {Axis::tp | Axis::dp, "p", 0}, b, b);
    };
    if (tp_first) reduce_a();
    reduce_b();
    if (!tp_first) reduce_a();
    writer.call(0);
    return writer.finish();
  };
  const StepProgram first = program(true), second = program(false);
  const std::vector<Role> roles{{"tp first", &first}, {"dp first", &second}};
  const auto problems = [&](Queues queues) {
    return verify_order(
               {{2, 1, 1, 1}}, roles, [](const Coordinate& at) { return at[0]; }, queues)
        .problems;
  };
  EXPECT_THAT(problems(Queues::lanes), IsEmpty());
  for (const Queues queues : {Queues::serial, Queues::chained})
    EXPECT_THAT(
        problems(queues),
        testing::ElementsAre("deadlock: rank 0 (tp first) at 'a' (all_reduce, lane tp, only of micro-batch 0)"
                             "\n    waits for rank 1 (dp first) at 'b' (all_reduce, lane dp, only of "
                             "micro-batch 0)\n    waits for rank 0 (tp first) at 'a' (all_reduce, lane tp, "
                             "only of micro-batch 0)"));
}

TEST(VerifyOrder, OtherMessagesAreNamed) {
  const auto broken = [](auto change, Queues queues = Queues::lanes) {
    Grid2x2 grid;
    change(grid);
    return grid.report(queues).problems;
  };
  EXPECT_THAT(broken([](Grid2x2& g) { g.operation("forward", OCT_ALL_GATHER).label = "other"; }),
              Contains(HasSubstr("rank 1 (odd) at 'other' (all_gather, lane tp, forward of micro-batch 0)")));
  EXPECT_THAT(broken([](Grid2x2& g) {
                for (Operand& operand : g.operation("forward", OCT_ALL_GATHER).operands)
                  operand.view.rows /= 2;
              }),
              Contains(HasSubstr("128 bytes of bf16")));
  EXPECT_THAT(broken([](Grid2x2& g) {
                for (Operand& operand : g.operation("forward", OCT_ALL_GATHER).operands)
                  operand.view.dtype = OCT_F16;
              }),
              Contains(HasSubstr("256 bytes of f16")));
  EXPECT_THAT(broken([](Grid2x2& g) { g.operation("update", OCT_REDUCE_SCATTER).reduction = OCT_MAX; }),
              Contains(HasSubstr("(maximum)")));
  EXPECT_THAT(
      broken([](Grid2x2& g) { g.operation("forward", OCT_ALL_GATHER).operands[0].view.rows /= 2; }),
      Contains("odd: 'layers.0.full' (all_gather, lane tp, forward) turns 128 bytes into 512 over 2 ranks"));
  EXPECT_THAT(
      broken([](Grid2x2& g) { g.operation("forward", OCT_REDUCE_SCATTER).operands[0].view.rows /= 2; }),
      Contains(HasSubstr("turns 256 bytes into 256 over 2 ranks")));
  EXPECT_THAT(broken([](Grid2x2& g) { g.operation("forward", OCT_ALL_GATHER).lane = 2; }),
              Contains(HasSubstr("use one channel (axes tp, purpose 'activation') from two lanes")));
  EXPECT_THAT(broken([](Grid2x2& g) { g.operation("forward", OCT_ALL_GATHER).operands[0].view.pitch = 99; }),
              Contains(HasSubstr("moves a strided view")));
  EXPECT_THAT(broken([](Grid2x2& g) { g.operation("forward", OCT_ALL_GATHER).peers.axes = {}; }),
              Contains(HasSubstr("names no axis")));
  EXPECT_THAT(broken([](Grid2x2& g) {
                for (Segment& segment : g.programs[1].segments)
                  for (Operation& operation : segment.operations)
                    if (operation.lane == 1) operation.peers.purpose = "private";
              }),
              Contains(HasSubstr("which never joins")));
}

TEST(VerifyOrder, OnlyTheRootOfABroadcastHasAnInput) {
  const auto program = [](bool root, std::int64_t bytes) {
    Writer writer({"control"});
    const View from = writer.persistent("from", 1, 64), to = writer.buffer("to", 1, bytes);
    writer.segment("only");
    Operation& operation = writer.communicate(OCT_BROADCAST, 0, "choice", {Axis::dp, "control", 0}, from, to);
    if (!root) operation.operands[0].view = {};
    writer.call(0);
    return writer.finish();
  };
  const StepProgram root = program(true, 64), other = program(false, 64), wrong = program(false, 32);
  const auto problems = [&](const StepProgram& second) {
    return verify_order(
               {{1, 1, 2, 1}}, {{"root", &root}, {"other", &second}},
               [](const Coordinate& at) { return at[int(Axis::dp)]; }, Queues::serial)
        .problems;
  };
  EXPECT_THAT(problems(other), IsEmpty());
  EXPECT_THAT(problems(wrong), Contains(HasSubstr("mismatch on axes dp")));
}

TEST(VerifyOrder, MicroBatchesOutOfOrderAreNamed) {
  toy::Pipeline pipeline({.layers = 2, .micro_batches = 4, .stages = 2});
  for (Call& call : pipeline.programs[0].schedule.calls)
    if (pipeline.programs[0].segments[call.segment].name == "send x" && call.micro_batch < 2)
      call.micro_batch ^= 1;
  EXPECT_THAT(pipeline.order(Queues::lanes).problems, Contains(HasSubstr("mismatch on axes pp")));
}

TEST(VerifyOrder, ALostSendIsNamed) {
  toy::Pipeline pipeline({.layers = 2, .micro_batches = 2, .stages = 2});
  StepProgram& program = pipeline.programs[0];
  program.segments.push_back({"nothing", {}, {}});
  for (Call& call : program.schedule.calls)
    if (program.segments[call.segment].name == "send x" && call.micro_batch == 1)
      call.segment = int(program.segments.size()) - 1, call.waits.clear();
  derive_waits(program);
  EXPECT_THAT(pipeline.order(Queues::lanes).problems,
              Contains(AllOf(
                  HasSubstr("(stage 1) at 'x.1' (receive, lane from previous, receive x of micro-batch 1)"),
                  HasSubstr("which never joins"))));
}

TEST(VerifyOrder, OneForwardOneBackward) {
  struct Case {
    bool one_lane, receive_first, serial, chained, lanes;  // expected to complete
  };
  for (const int stages : {2, 3, 4})
    for (const Case& c : {Case{true, false, false, false, false},
                          {false, false, false, false, true},
                          {true, true, true, true, true},
                          {false, true, true, true, true}}) {
      const toy::Pipeline pipeline({.layers = stages,
                                    .micro_batches = 6,
                                    .stages = stages,
                                    .receive_first = c.receive_first,
                                    .one_pp_lane = c.one_lane});
      const bool expected[] = {c.serial, c.chained, c.lanes};
      for (const Queues queues : kAllQueues) {
        const auto problems = pipeline.order(queues).problems;
        EXPECT_EQ(problems.empty(), expected[int(queues)])
            << stages << " stages, " << (c.one_lane ? "one lane, " : "lanes of their own, ")
            << (c.receive_first ? "receive first, " : "send first, ") << name(queues);
        if (!problems.empty()) {
          EXPECT_THAT(problems[0], AllOf(HasSubstr("deadlock: rank "), HasSubstr("(send, lane ")));
        }
      }
    }
}

TEST(VerifyOrder, SymmetryIsExact) {  // a ring along one axis: its ranks all run the same program
  for (const bool two_lanes : {false, true})
    for (const bool symmetry : {false, true}) {
      Writer writer({"to next", "from previous"});
      const View mine = writer.persistent("mine", 1, 64), theirs = writer.buffer("theirs", 1, 64), absent;
      writer.segment("ring");
      writer.communicate(OCT_SEND, 0, "keys", {Axis::cp, "ring", +1}, mine, absent);
      writer.communicate(OCT_RECEIVE, two_lanes ? 1 : 0, "keys", {Axis::cp, "ring", -1}, absent, theirs);
      writer.call(0);
      const StepProgram program = writer.finish();
      const OrderReport report = verify_order(
          {{1, 4, 1, 1}}, {{"ring", &program}}, [](const Coordinate&) { return 0; }, Queues::lanes, symmetry);
      EXPECT_EQ(report.problems.empty(), two_lanes);
      EXPECT_EQ(report.simulated, symmetry ? 1 : 4);
      EXPECT_EQ(report.symmetry, symmetry ? "cp" : "");
    }
}

// Both ways round a ring of one purpose: apart from 3 ranks on; among 2 ranks both reach the same peer.
TEST(VerifyOrder, DirectionsAreChannelsUnlessTheyReachOneRank) {
  for (const int ranks : {2, 3, 4})
    for (const bool symmetry : {false, true}) {
      Writer writer({"a", "b", "c", "d"});
      const View absent;
      writer.segment("ring");
      for (const int way : {+1, -1}) {
        const std::string label = way > 0 ? "up" : "down";
        const View mine = writer.persistent("mine " + label, 1, 64),
                   theirs = writer.buffer("theirs " + label, 1, 64);
        writer.communicate(OCT_SEND, way > 0 ? 0 : 1, label, {Axis::cp, "ring", way}, mine, absent);
        writer.communicate(OCT_RECEIVE, way > 0 ? 2 : 3, label, {Axis::cp, "ring", -way}, absent, theirs);
      }
      writer.call(0);
      const StepProgram program = writer.finish();
      const OrderReport report = verify_order(
          {{1, ranks, 1, 1}}, {{"ring", &program}}, [](const Coordinate&) { return 0; }, Queues::lanes,
          symmetry);
      EXPECT_EQ(report.problems.empty(), ranks > 2) << ranks;
      if (ranks == 2) {
        EXPECT_THAT(report.problems, Contains(HasSubstr("from two lanes")));
      }
    }
}

TEST(VerifyOrder, CollapsedAndRankByRankAgree) {
  for (const bool receive_first : {false, true}) {
    const toy::Pipeline pipeline(
        {.layers = 4, .micro_batches = 3, .stages = 4, .receive_first = receive_first});
    for (const Queues queues : kAllQueues) {
      const OrderReport collapsed = pipeline.order(queues), all = pipeline.order(queues, false);
      EXPECT_EQ(collapsed.symmetry, "dp x tp");
      EXPECT_EQ(all.symmetry, "");
      EXPECT_EQ(collapsed.simulated * 4, all.simulated);
      EXPECT_EQ(collapsed.problems.empty(), all.problems.empty());
      if (all.problems.empty()) {
        EXPECT_EQ(collapsed.issues * 4, all.issues);
      }
    }
  }
}

}  // namespace
}  // namespace octachoron
