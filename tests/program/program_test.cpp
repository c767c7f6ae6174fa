// Programs written out, and the order their waits imply, worked by hand.
#include "core/program/program.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/program/toy.h"

namespace octachoron {
namespace {

using toy::in;
using toy::out;
using toy::Writer;

TEST(Program, HappensBeforeByHand) {
  // lane a: 0 1 4    lane b: 2 3    lane c: 5;   2 waits for 1, 4 for 2, 5 for 3.
  Writer writer({"a", "b", "c"});
  writer.segment("only");
  for (const int lane : {0, 0, 1, 1, 0, 2}) writer.operation(OCT_FILL, lane, "o", {});
  writer.wait(2, 1);
  writer.wait(4, 2);
  writer.wait(5, 3);
  writer.call(0);
  const Expansion expansion = expand(writer.program);
  const std::vector<Clock> clocks = happens_before(expansion);
  const auto clock = [](int a, int b, int c) { return Clock{a, b, c}; };
  EXPECT_EQ(clocks[0], clock(1, 0, 0));
  EXPECT_EQ(clocks[1], clock(2, 0, 0));
  EXPECT_EQ(clocks[2], clock(2, 1, 0));
  EXPECT_EQ(clocks[3], clock(2, 2, 0));
  EXPECT_EQ(clocks[4], clock(3, 1, 0));
  EXPECT_EQ(clocks[5], clock(2, 2, 1));
  EXPECT_EQ(expansion.issue_of(1, 2), 3);
}

TEST(Program, WaitsBetweenCallsCountEventsOfTheStep) {
  Writer writer({"a", "b"});
  writer.segment("one");
  writer.operation(OCT_FILL, 0, "x", {});
  writer.operation(OCT_FILL, 0, "y", {});
  writer.segment("two");
  writer.operation(OCT_FILL, 1, "z", {});
  for (const int segment : {0, 0, 1}) writer.call(segment);
  writer.program.schedule.calls[2].waits.push_back({0, 0, 1});  // z after x of the second call
  const Expansion expansion = expand(writer.program);
  EXPECT_EQ(expansion.issues[4].waits[0], 3);
  EXPECT_EQ(happens_before(expansion)[4], (Clock{3, 1}));
}

TEST(Program, OfTwoWaitsForOneLaneTheLaterCounts) {
  Writer writer({"a", "b"});
  writer.segment("only");
  for (const int lane : {0, 0, 1}) writer.operation(OCT_FILL, lane, "o", {});
  writer.wait(2, 1);
  writer.wait(2, 0);
  writer.call(0);
  EXPECT_EQ(happens_before(expand(writer.program))[2], (Clock{2, 1}));
}

TEST(Program, AWaitForSomethingLaterIsRefused) {
  for (const Wait wait : {Wait{0, 0, 0}, Wait{0, 1, 0}, Wait{0, 0, 1}, Wait{0, 0, 7}}) {
    Writer writer({"a"});
    writer.segment("one");
    writer.operation(OCT_FILL, 0, "x", {});
    writer.operation(OCT_FILL, 0, "y", {});
    writer.call(0);
    writer.call(0);
    writer.program.schedule.calls[0].waits.push_back(wait);
    EXPECT_THROW(expand(writer.program), Error) << wait.producer << " of call " << wait.call;
  }
}

TEST(Program, InstancesByScope) {
  Writer writer({"a"});
  writer.buffer("slot", 1, 8);
  writer.buffer("step", 1, 8, OCT_U8, Scope::step);
  writer.buffer("micro", 1, 8, OCT_U8, Scope::micro_batch);
  writer.segment("one");
  for (int m = 0; m < 4; ++m) writer.call(0, m % 2, m);
  const StepProgram& program = writer.program;
  EXPECT_EQ(program.instances_per_buffer(), 4);
  const Call& last = program.schedule.calls[3];
  EXPECT_EQ(program.instance(0, last), 1);
  EXPECT_EQ(program.instance(1, last), 4);
  EXPECT_EQ(program.instance(2, last), 8 + 3);
  EXPECT_EQ(program.instances(0), 2);
  EXPECT_EQ(program.instances(1), 1);
  EXPECT_EQ(program.instances(2), 4);
  EXPECT_EQ(program.find_buffer("micro"), 2);
  EXPECT_EQ(program.find_buffer("macro"), -1);
}

TEST(Program, DescribesAnOperationForTheReader) {
  const StepProgram program = toy::model_step({}, 0);
  const Expansion expansion = expand(program);
  EXPECT_EQ(describe(program, expansion.issues.back()),
            "'layers.1.update' (adamw, lane compute, update of micro-batch 0)");
}

TEST(Program, DescriptionForTheDeviceFollowsTheRank) {
  Operation operation;
  operation.op = OCT_EMBEDDING;
  operation.i[0] = 100;
  operation.rank_dependence = {0, Axis::tp, 32};
  operation.operands.push_back(in({0, 0, OCT_I32, 1, 8, 8}));
  const oct_operation description = describe_for_device(operation, {3, 0, 0, 0});
  EXPECT_EQ(description.i[0], 196);
  EXPECT_EQ(description.operands, 1);
  EXPECT_EQ(description.operand[0].columns, 8);
  operation.operands.resize(OCT_MAX_OPERANDS + 1);
  EXPECT_THROW(describe_for_device(operation, {}), Error);
}

}  // namespace
}  // namespace octachoron
