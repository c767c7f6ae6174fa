// Whatever a peer could notice changes the digest; scratch of the device does not.
#include "core/program/digest.h"

#include <gtest/gtest.h>

#include "tests/program/toy.h"

namespace octachoron {
namespace {

using Change = std::function<void(StepProgram&)>;

StepProgram program() {
  return toy::model_step({}, 0);
}

Operation& communication(StepProgram& program) {
  for (Segment& segment : program.segments)
    for (Operation& operation : segment.operations)
      if (is_communication(operation.op)) return operation;
  throw std::logic_error("no communication");
}
Segment& waiting(StepProgram& program) {
  for (Segment& segment : program.segments)
    if (!segment.waits.empty()) return segment;
  throw std::logic_error("no wait");
}

TEST(Digest, EqualProgramsHaveEqualDigests) {
  EXPECT_EQ(program_digest(program()), program_digest(program()));
}

TEST(Digest, ChangesWithThe) {
  const std::map<std::string, Change> changes{
      {"kind", [](auto& p) { communication(p).op = OCT_BROADCAST; }},
      {"lane", [](auto& p) { communication(p).lane ^= 1; }},
      {"label", [](auto& p) { communication(p).label += "x"; }},
      {"reduction", [](auto& p) { communication(p).reduction = OCT_MAX; }},
      {"axes", [](auto& p) { communication(p).peers.axes = communication(p).peers.axes | Axis::cp; }},
      {"purpose", [](auto& p) { communication(p).peers.purpose += "x"; }},
      {"shift", [](auto& p) { ++communication(p).peers.shift; }},
      {"block", [](auto& p) { ++communication(p).peers.block; }},
      {"integer attribute", [](auto& p) { ++communication(p).i[7]; }},
      {"real attribute", [](auto& p) { communication(p).f[0] += 1e-9; }},
      {"rule of the rank", [](auto& p) { ++communication(p).rank_dependence.stride[0]; }},
      {"buffer of a view", [](auto& p) { ++communication(p).operands[0].view.buffer; }},
      {"offset of a view", [](auto& p) { ++communication(p).operands[0].view.offset; }},
      {"type of a view", [](auto& p) { communication(p).operands[0].view.dtype = OCT_E8M0; }},
      {"rows of a view", [](auto& p) { ++communication(p).operands[0].view.rows; }},
      {"columns of a view", [](auto& p) { ++communication(p).operands[0].view.columns; }},
      {"pitch of a view", [](auto& p) { ++communication(p).operands[0].view.pitch; }},
      {"access of a view", [](auto& p) { communication(p).operands[0].access = Access::update; }},
      {"number of operations", [](auto& p) { p.segments.back().operations.pop_back(); }},
      {"order of operations",
       [](auto& p) { std::swap(p.segments[0].operations.front(), p.segments[0].operations.back()); }},
      {"name of a segment", [](auto& p) { p.segments[0].name += "x"; }},
      {"wait of a segment", [](auto& p) { waiting(p).waits.pop_back(); }},
      {"producer of a wait", [](auto& p) { ++waiting(p).waits[0].producer; }},
      {"wait of a call",
       [](auto& p) {
         p.schedule.calls.back().waits.push_back({0, 0, 0});
       }},
      {"micro-batch of a call", [](auto& p) { ++p.schedule.calls.back().micro_batch; }},
      {"number of calls", [](auto& p) { p.schedule.calls.pop_back(); }},
      {"slots", [](auto& p) { ++p.schedule.slots; }},
      {"priority of a lane", [](auto& p) { ++p.lanes[0].priority; }},
      {"size of a buffer", [](auto& p) { ++p.buffers[1].bytes; }},
      {"life of a buffer", [](auto& p) { p.buffers[0].persistent = !p.buffers[0].persistent; }},
  };
  const std::uint64_t digest = program_digest(program());
  for (const auto& [what, change] : changes) {
    StepProgram changed = program();
    change(changed);
    EXPECT_NE(program_digest(changed), digest) << what;
  }
}

TEST(Digest, DoesNotDependOnScratch) {
  StepProgram one = program(), two = program();
  for (StepProgram* program : {&one, &two})
    program->buffers.push_back({.name = "scratch", .memory = MemoryClass::workspace});
  one.buffers.back().bytes = 256;
  one.segments[0].operations[0].workspace = View{int(one.buffers.size()) - 1, 0, OCT_U8, 1, 256, 256};
  two.buffers.back().bytes = 512;
  two.segments[0].operations[0].workspace = View{int(two.buffers.size()) - 1, 0, OCT_U8, 1, 512, 512};
  EXPECT_EQ(program_digest(one), program_digest(two));
}

}  // namespace
}  // namespace octachoron
