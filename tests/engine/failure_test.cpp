// What an executor leaves behind when a step fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/program/emit.h"
#include "tests/engine/rig.h"
#include "tests/schedule/small_model.h"

namespace octachoron::engine_test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSize = 256;
constexpr int kProducts = 40;

// A chain of products x <- x weight, and a sum over tp that comes last in program order.
StepProgram chain(const Target& target) {
  ProgramBuilder builder(target);
  const auto matrix = [&](const std::string& name) {
    const View view = builder.matrix(name, OCT_F32, kSize, kSize, MemoryClass::weight, Scope::step);
    builder.set_persistent(view);
    return view;
  };
  const View weight = matrix("weight"), other = matrix("other");
  View x = matrix("x0");
  builder.call(builder.segment("chain"));
  for (int i = 1; i <= kProducts; ++i) {
    const View next = matrix(text("x", i));
    emit_gemm(builder, text("product ", i), {.a = x, .b = weight, .d = next});
    x = next;
  }
  builder.all_reduce({Axis::tp, "sum"}, builder.lane("tp"), "sum", other);
  return builder.finish();
}

void identity(std::byte* data) {
  auto* values = reinterpret_cast<float*>(data);
  std::fill_n(values, kSize * kSize, 0.f);
  for (std::int64_t i = 0; i < kSize; ++i) values[i * (kSize + 1)] = 1;
}

// The last operation cannot be enqueued: what was enqueued before it still refers to the arena.
TEST(Failure, NoLaneIsLeftRunning) {
  const World world(MPI_COMM_WORLD);
  if (world.size() == 1) GTEST_SKIP() << "one rank sends nothing";
  Machine machine(world, small_model::parameters({text("grid.tp=", world.size())}));
  Prepared prepared(machine, chain(machine.target()));
  identity(prepared.data("weight"));
  identity(prepared.data("x0"));
  const auto* last = reinterpret_cast<const float*>(prepared.data(text("x", kProducts)));
  prepared.executor.run();
  EXPECT_EQ(last[kSize * kSize - 1], 1);

  std::fill_n(const_cast<float*>(last), kSize * kSize, 0.f);
  machine.backend.communicator().abort();
  try {
    prepared.executor.run();
    ADD_FAILURE() << "nothing failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::peer_failed) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("aborted"));
  }
  EXPECT_EQ(last[kSize * kSize - 1], 1);
  EXPECT_TRUE(prepared.arena.guard_intact());
}

TEST(Failure, AnErrorOfTheDeviceIsNamed) {
  const World world(MPI_COMM_WORLD);
  for (const Strings& grid : grids(world.size())) {
    Session session(grid);
    RankBatch input = batch(session.parameters, world.rank(), 0);
    input.targets[3] = std::int32_t(session.parameters.model.vocab);
    try {
      session.session.step(input, 1e-2, 1);
      ADD_FAILURE() << "nothing failed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("loss_statistics: target 50 of token 3"));
      EXPECT_THAT(error.what(), HasSubstr("device 'cpu' failed"));
    }
    EXPECT_TRUE(session.session.arena().guard_intact());
  }
}

}  // namespace
}  // namespace octachoron::engine_test
