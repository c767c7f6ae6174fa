// Transfers run beside work that does not need them, and never beside work that does. Each message takes 20
// ms longer than it would.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/text.h"
#include "core/program/emit.h"
#include "tests/engine/rig.h"
#include "tests/schedule/small_model.h"

namespace octachoron::engine_test {
namespace {

constexpr std::int64_t kSize = 640;
enum Place { first, gather, second, consumer };

// A product, its all-gather, another product (of the gathered rows or not), and a consumer of both.
StepProgram two_products(const Target& target, bool dependent) {
  ProgramBuilder builder(target);
  const DType type = builder.type(OCT_STORAGE_ACTIVATION);
  const auto input = [&](const char* name) {
    const View view = builder.matrix(name, type, kSize, kSize, MemoryClass::weight, Scope::step);
    builder.set_persistent(view);
    return view;
  };
  const View a = input("a"), weight = input("weight"), b = input("b");
  builder.call(builder.segment("two products"));
  const auto product = [&](const char* name, const View& of) {
    const View result = builder.temporary(name, type, kSize, kSize);
    emit_gemm(builder, name, {.a = of, .b = weight, .d = result});
    return result;
  };
  const View y = product("first", a);
  const View all = builder.all_gather({Axis::tp, "activation"}, builder.lane("tp"), "gather", y);
  const View z = product("second", dependent ? all.row_range(0, kSize) : b);
  emit_add(builder, "consumer", all.row_range(0, kSize), z, {}, builder.temporary("sum", type, kSize, kSize));
  return builder.finish();
}

struct Times {
  double total = 0, sum = 0, shorter = 0;  // seconds; the shorter of gather and second product
};
Times measure(Executor& executor) {
  const auto records = executor.run_observed();
  const auto seconds = [&](Place i) { return records[i].end_s - records[i].begin_s; };
  Times times;
  for (const Place place : {first, gather, second, consumer}) times.sum += seconds(place);
  times.total = records[consumer].end_s - records[first].begin_s;
  times.shorter = std::min(seconds(gather), seconds(second));
  return times;
}

// The part of what could run at once that did, at best of some runs: other work on the machine takes its
// share.
double best_overlap(Machine& machine, bool dependent) {
  Prepared prepared(machine, two_products(machine.target(), dependent));
  for (const char* name : {"a", "weight", "b"})
    std::fill_n(reinterpret_cast<float*>(prepared.data(name)), kSize * kSize, 1.f);
  double best = -1;
  for (int run = 0; run < 6; ++run) {
    const Times times = measure(prepared.executor);
    EXPECT_GT(times.shorter, 0);
    best = std::max(best, (times.sum - times.total) / times.shorter);
  }
  return best;
}

TEST(Overlap, OnlyIndependentWorkHidesATransfer) {
  const Environment delay("OCTACHORON_COMM_DELAY_US", "20000");
  const World world(MPI_COMM_WORLD);
  const Parameters parameters = small_model::parameters({text("grid.tp=", world.size())});
  Machine machine(world, parameters);
  EXPECT_GT(best_overlap(machine, false), 0.5);
  EXPECT_LT(best_overlap(machine, true), 0.01);
}

}  // namespace
}  // namespace octachoron::engine_test
