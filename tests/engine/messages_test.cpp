// Where a message goes: neighbours around a ring, and the root of a broadcast.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/text.h"
#include "tests/engine/rig.h"
#include "tests/schedule/small_model.h"

namespace octachoron::engine_test {
namespace {

class Messages : public testing::Test {
 protected:
  Messages()
      : world(MPI_COMM_WORLD), machine(world, small_model::parameters({text("grid.tp=", world.size())})) {}
  static View matrix(ProgramBuilder& builder, const std::string& name, MemoryClass memory) {
    const View view = builder.matrix(name, OCT_F32, 1, 4, memory, Scope::step);
    builder.set_persistent(view);
    return view;
  }
  static void emit(ProgramBuilder& builder, oct_op op, const char* lane, int shift,
                   std::vector<Operand> operands) {
    Operation operation{
        .op = op, .lane = builder.lane(lane), .label = "message", .operands = std::move(operands)};
    operation.peers = {Axis::tp, "test", shift};
    builder.emit(std::move(operation));
  }
  // The values of `mine` are this rank; \return what came into `theirs`
  float execute(ProgramBuilder& builder) {
    Prepared prepared(machine, builder.finish());
    std::fill_n(reinterpret_cast<float*>(prepared.data("mine")), 4, float(world.rank()));
    prepared.executor.run();
    return reinterpret_cast<const float*>(prepared.data("theirs"))[3];
  }
  World world;
  Machine machine;
};

TEST_F(Messages, GoAroundARing) {
  const int size = world.size();
  if (size == 1) GTEST_SKIP() << "one rank has no neighbour";
  for (const int shift : {1, -1, size - 1, 1 - size}) {
    ProgramBuilder builder(machine.target());
    const View mine = matrix(builder, "mine", MemoryClass::activation);
    const View theirs = matrix(builder, "theirs", MemoryClass::activation);
    builder.call(builder.segment("ring"));
    emit(builder, OCT_SEND, "to", shift, {{mine}});
    emit(builder, OCT_RECEIVE, "from", -shift, {{theirs, Access::write}});
    EXPECT_EQ(execute(builder), float(((world.rank() - shift) % size + size) % size)) << shift;
  }
}

TEST_F(Messages, ABroadcastComesFromItsRoot) {
  const int size = world.size();
  if (size == 1) GTEST_SKIP() << "one rank has nobody to tell";
  for (int root = 0; root < size; ++root) {
    ProgramBuilder builder(machine.target());
    const View mine = matrix(builder, "mine", MemoryClass::activation);
    const View theirs = matrix(builder, "theirs", MemoryClass::activation);
    builder.call(builder.segment("broadcast"));
    emit(builder, OCT_BROADCAST, "tp", root, {{mine}, {theirs, Access::write}});
    EXPECT_EQ(execute(builder), float(root));
  }
}

}  // namespace
}  // namespace octachoron::engine_test
