// Faults planted in memory, and the sentences that name them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "tests/program/toy.h"

namespace octachoron {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using toy::in;
using toy::out;
using toy::update;
using toy::Writer;

std::vector<std::string> check(const StepProgram& program, const Placement& placement) {
  return verify_memory({"stage", &program}, placement);
}
std::vector<std::string> check_apart(const StepProgram& program) {
  return check(program, toy::place_apart(program));
}

// x is written on lane a and read on lane b into y.
struct TwoLanes {
  TwoLanes() {
    x = writer.buffer("x", 2, 128);
    y = writer.buffer("y", 2, 128);
    writer.segment("forward");
    writer.operation(OCT_FILL, 0, "set", {out(x)});
    writer.operation(OCT_COPY, 1, "use", {in(x), out(y)});
  }
  StepProgram finish() {
    writer.call(0);
    return writer.finish();
  }
  Writer writer{{"a", "b"}};
  View x, y;
};

TEST(VerifyMemory, AMissingWaitIsNamed) {
  TwoLanes two;
  two.writer.operation(OCT_FILL, 0, "again", {out(two.x)});
  two.writer.operation(OCT_FILL, 1, "over", {out(two.x)});
  StepProgram program = two.finish();
  EXPECT_THAT(check_apart(program), IsEmpty());
  std::vector<std::string> seen;
  toy::without_each_wait(program, [&](const Wait&, const Call*) {
    for (const std::string& problem : check_apart(program)) seen.push_back(problem);
  });
  EXPECT_THAT(
      seen,
      ElementsAre(
          "stage: 'use' (copy, lane b, forward of micro-batch 0) on buffer 'x' reads without waiting for the "
          "writer 'set' (fill, lane a, forward of micro-batch 0)",
          "stage: 'again' (fill, lane a, forward of micro-batch 0) on buffer 'x' overwrites without waiting "
          "for the "
          "reader 'use' (copy, lane b, forward of micro-batch 0)",
          "stage: 'over' (fill, lane b, forward of micro-batch 0) on buffer 'x' overwrites without waiting "
          "for the "
          "writer 'again' (fill, lane a, forward of micro-batch 0)"));
}

TEST(VerifyMemory, EachWaitOfTheModelIsNeededAndNamed) {
  toy::Pipeline pipeline({.layers = 4, .micro_batches = 4, .stages = 2});
  for (StepProgram& program : pipeline.programs) {
    for (const bool planned : {false, true}) {
      const Placement placement = planned ? plan_memory(program).placement : toy::place_apart(program);
      ASSERT_THAT(check(program, placement), IsEmpty());
      int removed = 0;
      toy::without_each_wait(program, [&](const Wait& wait, const Call* call) {
        ++removed;
        const Segment& segment = call ? program.segments[call->segment]
                                      : program.segments[&program.segments.back() - &program.segments[0]];
        const auto problems = check(program, placement);
        ASSERT_FALSE(problems.empty()) << segment.name << ": " << wait.consumer << " <- " << wait.producer;
        EXPECT_THAT(problems[0], HasSubstr("lane "));
        EXPECT_THAT(problems[0], HasSubstr("on buffer '"));
        EXPECT_THAT(problems[0], HasSubstr("without waiting for the "));
        if (!call) return;
        EXPECT_TRUE(toy::contains(problems, "'" + segment.operations[wait.consumer].label + "'"));
        const int from = program.schedule.calls[wait.call].segment;
        EXPECT_TRUE(
            toy::contains(problems, "'" + program.segments[from].operations[wait.producer].label + "'"));
      });
      EXPECT_GE(removed, 30);
    }
  }
}

TEST(VerifyMemory, AnAddressInUseIsNamed) {
  TwoLanes two;
  const StepProgram program = two.finish();
  EXPECT_THAT(
      check(program, {0, 0}),
      ElementsAre("stage: 'use' (copy, lane b, forward of micro-batch 0) on buffer 'y' overwrites its own "
                  "input, buffer 'x'"));
  EXPECT_THAT(check(program, {0, 255}), ElementsAre(HasSubstr("overwrites its own input, buffer 'x'")));
  EXPECT_THAT(check(program, {0, 256}), IsEmpty());
  EXPECT_THAT(
      check(program, {-1, 256})[0],
      "stage: 'set' (fill, lane a, forward of micro-batch 0) on buffer 'x' uses a buffer without an address");
}

TEST(VerifyMemory, ABufferPlannedTooEarlyIsNamed) {
  // y moves into x while x is still to be read.
  Writer writer({"a"});
  const View x = writer.buffer("x", 1, 256), y = writer.buffer("y", 1, 256), z = writer.buffer("z", 1, 256);
  writer.segment("forward");
  writer.operation(OCT_FILL, 0, "x", {out(x)});
  writer.operation(OCT_FILL, 0, "y", {out(y)});
  writer.operation(OCT_ADD, 0, "z", {in(x), in(y), out(z)});
  writer.call(0);
  const StepProgram program = writer.finish();
  Placement placement = plan_memory(program).placement;
  EXPECT_THAT(check(program, placement), IsEmpty());
  placement[1] = placement[0];
  EXPECT_THAT(
      check(program, placement),
      testing::Contains("stage: 'z' (add, lane a, forward of micro-batch 0) on buffer 'x' reads what was "
                        "overwritten by 'y' (fill, lane a, forward of micro-batch 0) on buffer 'y'"));
}

// Any two instances made to share an address: either the plan might have done so, or it is reported.
TEST(VerifyMemory, IllegalSharesOfTheModelAreReported) {
  const StepProgram program = toy::model_step({.layers = 2, .micro_batches = 2, .stages = 2}, 0);
  const Placement apart = toy::place_apart(program), planned = plan_memory(program).placement;
  int reported = 0, legal = 0;
  for (std::size_t a = 0; a < planned.size(); ++a)
    for (std::size_t b = a + 1; b < planned.size(); ++b) {
      const Buffer &x = program.buffers[a / program.instances_per_buffer()],
                   &y = program.buffers[b / program.instances_per_buffer()];
      if (planned[a] < 0 || planned[b] < 0 ||
          (x.memory == MemoryClass::host) != (y.memory == MemoryClass::host))
        continue;
      Placement shared = apart;
      shared[b] = shared[a] = 1 << 24;  // apart from all others
      const bool found = !check(program, shared).empty();
      (found ? reported : legal) += 1;
      EXPECT_TRUE(found || !(x.persistent || y.persistent)) << x.name << " and " << y.name;
    }
  EXPECT_GT(reported, 100);
  EXPECT_GT(legal, 5);
}

TEST(VerifyMemory, WhatNothingHasWrittenIsReported) {
  Writer writer({"a"});
  const View x = writer.buffer("x", 4, 8), y = writer.buffer("y", 1, 8);
  writer.segment("forward");
  writer.operation(OCT_FILL, 0, "left", {out(x.column_range(0, 7))});
  writer.operation(OCT_COPY, 0, "all", {in(x), out(y)});
  writer.operation(OCT_ADD, 0, "add", {update(y)});
  writer.call(0);
  EXPECT_THAT(
      check_apart(writer.finish()),
      ElementsAre("stage: 'all' (copy, lane a, forward of micro-batch 0) on buffer 'x' reads bytes that "
                  "nothing has written"));
}

TEST(VerifyMemory, AnUpdateReadsAndAWorkspaceDoesNot) {
  Writer writer({"a", "b"});
  const View sum = writer.buffer("sum", 1, 8), scratch = writer.buffer("scratch", 1, 8);
  writer.segment("forward");
  writer.operation(OCT_ADD, 0, "add", {update(sum)}).workspace = scratch;
  writer.call(0);
  StepProgram program = writer.finish();
  EXPECT_THAT(check_apart(program),
              ElementsAre(HasSubstr("on buffer 'sum' reads bytes that nothing has written")));
  EXPECT_THAT(check(program, {0, 4}),
              testing::Contains(HasSubstr("on buffer 'scratch' writes bytes that it writes "
                                          "twice, also as buffer 'sum'")));
}

TEST(VerifyMemory, PersistentBuffersHaveTheirBytesForThemselves) {
  Writer writer({"a"});
  const View p = writer.persistent("p", 1, 64), q = writer.persistent("q", 1, 64),
             t = writer.buffer("t", 1, 64);
  writer.segment("forward");
  writer.operation(OCT_COPY, 0, "t", {in(p), in(q), out(t)});
  writer.operation(OCT_COPY, 0, "p", {in(t), out(p)});
  writer.call(0);
  const StepProgram program = writer.finish();
  EXPECT_THAT(check(program, {0, 64, 128}), IsEmpty());
  EXPECT_THAT(check(program, {0, 63, 128}),
              testing::Contains("stage: the persistent buffers 'q' and 'p' share bytes"));
  EXPECT_THAT(
      check(program, {0, 64, 127}),
      testing::Contains("stage: 't' (copy, lane a, forward of micro-batch 0) on buffer 't' uses bytes of the "
                        "persistent buffer 'q'"));
}

TEST(VerifyMemory, KeptBuffersAreIntactAtTheEnd) {
  Writer writer({"a"});
  const View loss = writer.buffer("loss", 1, 8);
  writer.last_buffer().kept = true;
  const View x = writer.buffer("x", 1, 8);
  writer.segment("forward");
  writer.operation(OCT_LOSS, 0, "loss", {out(loss)});
  writer.operation(OCT_FILL, 0, "later", {out(x)});
  writer.call(0);
  StepProgram program = writer.finish();
  EXPECT_THAT(check(program, {0, 8}), IsEmpty());
  EXPECT_THAT(
      check(program, {0, 4}),
      ElementsAre("stage: buffer 'loss' is kept for the host, but some of its bytes were last written by "
                  "'later' (fill, lane a, forward of micro-batch 0) on buffer 'x'"));
  program.segments[0].operations[0].operands[0].view.columns = 7;
  EXPECT_THAT(check(program, {0, 8}),
              ElementsAre(HasSubstr("'loss' is kept for the host, but nothing has written")));
}

TEST(VerifyMemory, HostBuffersHaveAnAddressSpaceOfTheirOwn) {
  Writer writer({"a"});
  const View tokens = writer.buffer("tokens", 1, 8, OCT_I32, Scope::micro_batch, MemoryClass::host);
  const View x = writer.buffer("x", 1, 8, OCT_I32),
             result = writer.buffer("result", 1, 8, OCT_I32, Scope::step, MemoryClass::host);
  writer.last_buffer().kept = true;
  writer.segment("forward");
  writer.operation(OCT_COPY, 0, "in", {in(tokens), out(x)});
  writer.operation(OCT_COPY, 0, "out", {in(x), out(result)});
  writer.call(0);
  StepProgram program = writer.finish();
  EXPECT_THAT(check(program, {0, 0, 32}), IsEmpty());  // tokens and x at 0 of different memories
  EXPECT_THAT(check(program, {0, 0, 0}), IsEmpty());   // the result follows the tokens' last reader
  program.segments[0].operations[0].operands[0].view.buffer = 2;  // a result is no input
  EXPECT_THAT(check(program, {0, 0, 32}),
              testing::Contains(HasSubstr("on buffer 'result' reads bytes that nothing")));
}

TEST(VerifyMemory, NotMoreThanTenProblems) {
  Writer writer({"a"});
  writer.segment("forward");
  for (int i = 0; i < 30; ++i) writer.operation(OCT_COPY, 0, "o", {in(writer.buffer(text("b", i), 1, 8))});
  writer.call(0);
  EXPECT_EQ(check_apart(writer.finish()).size(), 10u);
}

TEST(VerifyMemory, MalformedProgramsAreRefused) {
  const auto broken = [](auto change) {
    TwoLanes two;
    StepProgram program = two.finish();
    change(program);
    return check(program, {0, 256});
  };
  EXPECT_THAT(broken([](StepProgram& p) { p.segments[0].operations[1].operands[0].view.offset = 1; }),
              ElementsAre("stage: 'use' (copy, forward) reaches out of buffer 'x'"));
  EXPECT_THAT(broken([](StepProgram& p) { p.segments[0].operations[1].operands[0].view.pitch = 64; }),
              ElementsAre(HasSubstr("reaches out of buffer 'x'")));
  EXPECT_THAT(broken([](StepProgram& p) { p.segments[0].operations[1].operands[0].view.buffer = 2; }),
              ElementsAre(HasSubstr("names buffer 2 of 2")));
  EXPECT_THAT(broken([](StepProgram& p) { p.segments[0].operations[1].lane = 2; }),
              ElementsAre(HasSubstr("is on lane 2 of 2")));
  EXPECT_THAT(broken([](StepProgram& p) { p.schedule.calls[0].slot = 1; }),
              ElementsAre(HasSubstr("uses slot 1 of 1")));
  EXPECT_THAT(broken([](StepProgram& p) { p.schedule.micro_batches = 2; }),
              ElementsAre(HasSubstr("2 addresses")));
}

}  // namespace
}  // namespace octachoron
