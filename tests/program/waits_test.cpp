// Derived waits: sufficient and, where the boxes are exact, each of them needed.
#include "core/program/waits.h"

#include <gtest/gtest.h>

#include "core/program/memory.h"
#include "tests/program/toy.h"

namespace octachoron {
namespace {

using toy::in;
using toy::out;
using toy::update;
using toy::Writer;

TEST(Waits, RandomProgramsNeedEachOfThem) {
  std::mt19937 random(1);
  int removed = 0;
  for (int round = 0; round < 60; ++round) {
    StepProgram program = toy::random_program(random, {.persistent = true});
    const Role role{"random", &program};
    const Placement apart = toy::place_apart(program);
    ASSERT_EQ(verify_memory(role, apart), std::vector<std::string>{}) << "round " << round;
    ASSERT_EQ(toy::races_by_search(program), 0) << "round " << round;
    ASSERT_TRUE(missing_waits(program, program.schedule.calls).empty());
    toy::without_each_wait(program, [&](const Wait& wait, const Call*) {
      ++removed;
      const auto problems = verify_memory(role, apart);
      EXPECT_FALSE(problems.empty()) << "round " << round << ": " << wait.consumer << " <- " << wait.producer;
      EXPECT_TRUE(toy::contains(problems, "without waiting for the "));
      EXPECT_GT(toy::races_by_search(program), 0);
    });
  }
  EXPECT_GT(removed, 1000);
  RecordProperty("removed", removed);
}

// Different pitches may give waits too many, never too few; and the verifier, which looks at rows, agrees
// with the search on every program, whatever is removed.
TEST(Waits, DifferentPitchesAreSafe) {
  std::mt19937 random(2);
  int removed = 0, needed = 0;
  for (int round = 0; round < 40; ++round) {
    StepProgram program = toy::random_program(random, {.persistent = true, .one_pitch = false});
    const Role role{"random", &program};
    const Placement apart = toy::place_apart(program);
    ASSERT_EQ(verify_memory(role, apart), std::vector<std::string>{}) << "round " << round;
    ASSERT_EQ(toy::races_by_search(program), 0) << "round " << round;
    toy::without_each_wait(program, [&](const Wait&, const Call*) {
      ++removed;
      const bool reported = !verify_memory(role, apart).empty();
      needed += reported;
      EXPECT_EQ(reported, toy::races_by_search(program) > 0) << "round " << round;
    });
  }
  EXPECT_GT(needed, removed * 9 / 10);
}

// Several waits gone at once: the verifier and the search still agree.
TEST(Waits, VerifierAgreesWithSearchOnBrokenPrograms) {
  std::mt19937 random(3);
  int broken = 0;
  for (int round = 0; round < 200; ++round) {
    StepProgram program = toy::random_program(random, {.persistent = true, .one_pitch = round % 2 == 0});
    const auto thin = [&](std::vector<Wait>& waits) {
      std::erase_if(waits, [&](const Wait&) { return random() % 16 == 0; });
    };
    for (Segment& segment : program.segments) thin(segment.waits);
    for (Call& call : program.schedule.calls) thin(call.waits);
    const bool reported = !verify_memory({"broken", &program}, toy::place_apart(program)).empty();
    ASSERT_EQ(reported, toy::races_by_search(program) > 0) << "round " << round;
    ASSERT_TRUE(!reported || !missing_waits(program, program.schedule.calls).empty());
    broken += reported;
  }
  EXPECT_GT(broken, 50);
  EXPECT_LT(broken, 200);
}

std::vector<std::pair<int, int>> waits_of(const StepProgram& program) {
  std::vector<std::pair<int, int>> result;
  for (const Wait& wait : program.segments[0].waits) result.emplace_back(wait.consumer, wait.producer);
  return result;
}
using Pairs = std::vector<std::pair<int, int>>;

TEST(Waits, ThirdsOfOneMatrixAreIndependent) {
  Writer writer({"a", "b", "c"});
  const View qkv = writer.buffer("qkv", 4, 24), sum = writer.buffer("sum", 4, 8);
  writer.segment("only");
  for (int third = 0; third < 3; ++third)
    writer.operation(OCT_COPY, third, "third", {out(qkv.column_range(8 * third, 8))});
  writer.operation(OCT_ADD, 2, "q + k", {in(qkv.column_range(0, 8)), in(qkv.column_range(8, 8)), out(sum)});
  writer.operation(OCT_ROPE, 1, "rope", {update(qkv.column_range(0, 16))});
  writer.call(0);
  EXPECT_EQ(waits_of(writer.finish()), (Pairs{{3, 0}, {3, 1}, {4, 3}}));
}

TEST(Waits, AReadBehindAPartialWriteIsNotForgotten) {
  // The whole is read on lane b, half of it overwritten on a, then the other half on c: c waits for b itself.
  Writer writer({"a", "b", "c"});
  const View whole = writer.buffer("whole", 4, 8);
  writer.segment("only");
  writer.operation(OCT_FILL, 0, "set", {out(whole)});
  writer.operation(OCT_COPY, 1, "look", {in(whole)});
  writer.operation(OCT_FILL, 0, "left", {out(whole.column_range(0, 4))});
  writer.operation(OCT_FILL, 2, "right", {out(whole.column_range(4, 4))});
  writer.operation(OCT_COPY, 1, "look again", {in(whole)});
  writer.call(0);
  EXPECT_EQ(waits_of(writer.finish()), (Pairs{{1, 0}, {2, 1}, {3, 1}, {4, 2}, {4, 3}}));
}

TEST(Waits, ReadersDoNotWaitForEachOtherAndUpdatesDo) {
  Writer writer({"a", "b", "c"});
  const View x = writer.buffer("x", 1, 8);
  writer.segment("only");
  writer.operation(OCT_FILL, 0, "set", {out(x)});
  writer.operation(OCT_COPY, 1, "read", {in(x)});
  writer.operation(OCT_COPY, 2, "read too", {in(x)});
  writer.operation(OCT_ADD, 0, "add", {update(x)});
  writer.operation(OCT_ADD, 1, "add again", {update(x)});
  writer.call(0);
  EXPECT_EQ(waits_of(writer.finish()), (Pairs{{1, 0}, {2, 0}, {3, 1}, {3, 2}, {4, 3}}));
}

TEST(Waits, BuffersAndEmptyViewsAreKeptApart) {
  Writer writer({"a", "b"});
  const View x = writer.buffer("x", 2, 8), y = writer.buffer("y", 2, 8);
  writer.segment("only");
  writer.operation(OCT_FILL, 0, "x", {out(x)});
  writer.operation(OCT_FILL, 1, "y", {in(x.row_range(1, 0)), in(x.column_range(8, 0)), out(y)});
  writer.call(0);
  EXPECT_EQ(waits_of(writer.finish()), Pairs{});
}

TEST(Waits, ASharedWorkspaceOrdersLanes) {
  Writer writer({"a", "b"});
  const View x = writer.buffer("x", 1, 8), y = writer.buffer("y", 1, 8),
             scratch = writer.buffer("scratch", 1, 8);
  writer.segment("only");
  writer.operation(OCT_GEMM, 0, "x", {out(x)}).workspace = scratch;
  writer.operation(OCT_GEMM, 1, "y", {out(y)}).workspace = scratch.column_range(0, 4);
  writer.call(0);
  EXPECT_EQ(waits_of(writer.finish()), (Pairs{{1, 0}}));
}

TEST(Waits, SlotsAndMicroBatchesAreInstancesOfTheirOwn) {
  Writer writer({"a", "b"});
  const View slot = writer.buffer("slot", 1, 8);
  const View input = writer.buffer("input", 1, 8, OCT_U8, Scope::micro_batch, MemoryClass::host);
  writer.segment("produce");
  writer.operation(OCT_COPY, 0, "x", {in(input), out(slot)});
  writer.segment("consume");
  writer.operation(OCT_COPY, 1, "y", {in(slot), out(input)});
  for (int m = 0; m < 3; ++m) {
    writer.call(0, m % 2, m);
    writer.call(1, m % 2, m);
  }
  const StepProgram program = writer.finish();
  const auto producers = [&](int call) {
    std::vector<int> calls;
    for (const Wait& wait : program.schedule.calls[call].waits) calls.push_back(wait.call);
    return calls;
  };
  EXPECT_EQ(producers(1), std::vector{0});
  EXPECT_EQ(producers(2), std::vector<int>{});  // slot 1
  EXPECT_EQ(producers(4), std::vector{1});      // slot 0 again: after its reader
}

}  // namespace
}  // namespace octachoron
