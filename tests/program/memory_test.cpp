// Arena plans.
#include "core/program/memory.h"

#include <gtest/gtest.h>

#include "tests/program/toy.h"

namespace octachoron {
namespace {

using toy::in;
using toy::out;
using toy::update;
using toy::Writer;
using Strings = std::vector<std::string>;

Strings problems(const StepProgram& program, const Placement& placement) {
  return verify_memory({"role", &program}, placement);
}
Strings problems(const StepProgram& program) {
  return problems(program, plan_memory(program).placement);
}

TEST(Memory, RandomProgramsShareWithoutRaces) {
  std::mt19937 random(4);
  int shared = 0;
  for (int round = 0; round < 150; ++round) {
    const StepProgram program = toy::random_program(random, {.one_pitch = round % 2 == 0, .calls = 6});
    const MemoryPlan plan = plan_memory(program);
    ASSERT_EQ(problems(program, plan.placement), Strings{}) << "round " << round;
    EXPECT_GE(plan.arena_bytes, plan.live_bytes);
    EXPECT_LE(plan.arena_bytes, plan.apart_bytes);
    shared += plan.arena_bytes < plan.apart_bytes;
  }
  EXPECT_GT(shared, 10);
}

TEST(Memory, TheModelIsPlannedWithoutRaces) {
  for (const bool gpipe : {false, true}) {
    const toy::Pipeline pipeline({.layers = 8, .micro_batches = 8, .stages = 4, .gpipe = gpipe});
    for (const StepProgram& program : pipeline.programs) {
      const MemoryPlan plan = plan_memory(program);
      EXPECT_EQ(problems(program, plan.placement), Strings{});
      EXPECT_GE(plan.arena_bytes, plan.live_bytes);
      EXPECT_LT(plan.arena_bytes, plan.apart_bytes);
      std::int64_t sum = 0;
      for (int c = 0; c < kMemoryClasses; ++c) sum += c == int(MemoryClass::host) ? 0 : plan.by_class[c];
      EXPECT_EQ(sum, plan.live_bytes);
    }
  }
}

// a -> b -> c -> d on one lane, 256, 512, 256 and 512 bytes: each meets its neighbours only, so a and c share
// their bytes, as b and d do. Live at once: two neighbours and the weight, 768 + 256 bytes.
TEST(Memory, AChainWorkedByHand) {
  Writer writer({"one"});
  const View a = writer.buffer("a", 1, 256), b = writer.buffer("b", 1, 512), c = writer.buffer("c", 1, 256),
             d = writer.buffer("d", 1, 512);
  const View weight = writer.persistent("weight", 1, 100);
  const View input = writer.buffer("input", 1, 10, OCT_U8, Scope::step, MemoryClass::host);
  writer.segment("chain");
  writer.operation(OCT_COPY, 0, "a", {in(weight), in(input), out(a)});
  writer.operation(OCT_COPY, 0, "b", {in(a), out(b)});
  writer.operation(OCT_COPY, 0, "c", {in(b), out(c)});
  writer.operation(OCT_COPY, 0, "d", {in(c), out(d)});
  writer.call(0);
  const MemoryPlan plan = plan_memory(writer.finish());
  EXPECT_EQ(plan.placement, (Placement{768, 256, 768, 256, 0, 0}));
  EXPECT_EQ(plan.arena_bytes, 1024);
  EXPECT_EQ(plan.live_bytes, 1024);
  EXPECT_EQ(plan.apart_bytes, 1792);
  EXPECT_EQ(plan.host_bytes, 256);
  EXPECT_EQ(plan.by_class[int(MemoryClass::activation)], 768);
  EXPECT_EQ(plan.by_class[int(MemoryClass::weight)], 256);
}

// The same chain on two lanes, without waits between them that would order a and c: no bytes are shared.
TEST(Memory, LanesThatRunTogetherShareNothing) {
  Writer writer({"one", "two"});
  View views[4];
  for (int i = 0; i < 4; ++i) views[i] = writer.buffer(std::string(1, char('a' + i)), 1, 256);
  writer.segment("two chains");
  for (const int lane : {0, 1}) {
    writer.operation(OCT_FILL, lane, "x", {out(views[2 * lane])});
    writer.operation(OCT_COPY, lane, "y", {in(views[2 * lane]), out(views[2 * lane + 1])});
  }
  writer.call(0);
  const MemoryPlan plan = plan_memory(writer.finish());
  EXPECT_EQ(plan.arena_bytes, 4 * 256);
  EXPECT_EQ(plan.live_bytes, 2 * 256);
}

TEST(Memory, PersistentBuffersHaveOneAddressInAllPrograms) {
  // Training uses master, moment and weight; validation declares the same, uses the weight only, and has
  // buffers of its own between them.
  const auto program = [](bool training) {
    Writer writer({"one"});
    if (!training) writer.buffer("logits", 1, 5000);
    const View master = writer.persistent("master", 1, 1000), moment = writer.persistent("moment", 1, 3000);
    if (training) writer.buffer("gradient", 1, 4000);
    const View weight = writer.persistent("weight", 1, 500);
    const View x = writer.buffer("x", 1, 100);
    writer.segment("all");
    writer.operation(OCT_COPY, 0, "forward", {in(weight), out(x)});
    if (training)
      writer.operation(OCT_ADAMW, 0, "update", {in(x), update(master), update(moment), out(weight)});
    writer.call(0);
    return writer.finish();
  };
  const StepProgram training = program(true), validation = program(false);
  const MemoryPlan a = plan_memory(training), b = plan_memory(validation);
  for (const char* name : {"master", "moment", "weight"})
    EXPECT_EQ(a.placement[training.find_buffer(name)], b.placement[validation.find_buffer(name)]) << name;
  EXPECT_EQ(b.placement[validation.find_buffer("weight")], 1024 + 3072);
  EXPECT_EQ(b.placement[validation.find_buffer("logits")], -1);
  EXPECT_EQ(problems(validation, b.placement), Strings{});
}

TEST(Memory, KeptValuesSurvive) {
  const auto program = [](bool kept) {
    Writer writer({"one"});
    const View loss = writer.buffer("loss", 1, 8);
    writer.last_buffer().kept = kept;
    const View x = writer.buffer("x", 1, 8);
    writer.segment("all");
    writer.operation(OCT_LOSS, 0, "loss", {out(loss)});
    writer.operation(OCT_FILL, 0, "later", {out(x)});
    writer.call(0);
    return writer.finish();
  };
  EXPECT_EQ(plan_memory(program(false)).arena_bytes, 256);
  EXPECT_EQ(plan_memory(program(true)).arena_bytes, 512);
  EXPECT_EQ(problems(program(true)), Strings{});
}

TEST(Memory, AKeptBufferNobodyTouchesHasNoPlace) {
  Writer writer({"one"});
  writer.buffer("loss", 1, 8);
  writer.last_buffer().kept = true;
  writer.persistent("state", 1, 8);
  writer.last_buffer().kept = true;
  writer.segment("nothing");
  writer.call(0);
  const StepProgram program = writer.finish();
  EXPECT_EQ(plan_memory(program).placement, (Placement{-1, 0}));
  EXPECT_EQ(problems(program), Strings{});
}

TEST(Memory, PartsExtendAValueAndWholesBeginOne) {
  // x is written whole, read, and written again whole (two values), or in halves (one value for the step).
  const auto planned = [](bool halves) {
    Writer writer({"one"});
    const View x = writer.buffer("x", 2, 128), y = writer.buffer("y", 2, 128), z = writer.buffer("z", 1, 8);
    writer.segment("all");
    const auto set = [&] {
      for (int i = 0; i < 2 && halves; ++i) writer.operation(OCT_FILL, 0, "half", {out(x.row_range(i, 1))});
      if (!halves) writer.operation(OCT_FILL, 0, "whole", {out(x)});
      writer.operation(OCT_COPY, 0, "read", {in(x), out(z)});
    };
    set();
    writer.operation(OCT_FILL, 0, "y", {out(y)});
    writer.operation(OCT_COPY, 0, "read", {in(y), out(z)});
    set();
    writer.call(0);
    const StepProgram program = writer.finish();
    EXPECT_EQ(problems(program), Strings{});
    return plan_memory(program).arena_bytes;
  };
  EXPECT_EQ(planned(false), 2 * 256);  // y between the two values of x; z beside
  EXPECT_EQ(planned(true), 3 * 256);
}

}  // namespace
}  // namespace octachoron
