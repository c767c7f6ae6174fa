// An operation that the verifier does not miss changes what is computed when it is deleted.
#include <gtest/gtest.h>

#include <cstring>

#include "core/base/text.h"
#include "core/model/parameter_buffers.h"
#include "core/numerics/random.h"
#include "core/program/verify.h"
#include "core/program/waits.h"
#include "tests/engine/rig.h"
#include "tests/schedule/small_model.h"

namespace octachoron::engine_test {
namespace {

std::vector<int> persistent_buffers(const StepProgram& program) {
  std::vector<int> result;
  for (int b = 0; b < int(program.buffers.size()); ++b)
    if (program.buffers[b].persistent) result.push_back(b);
  return result;
}

// Masters of small numbers, moments and histories zero, scales 1; the same for each program.
void initialise(Prepared& prepared) {
  for (const int b : persistent_buffers(prepared.program)) {
    const Buffer& buffer = prepared.program.buffers[b];
    auto* data = reinterpret_cast<float*>(prepared.data(buffer.name));
    for (std::int64_t i = 0; i < buffer.bytes / 4; ++i)
      data[i] = buffer.memory == MemoryClass::master        ? 0.1f * float(normal(7, hash64(buffer.name), i))
                : buffer.name == PrecisionBuffers::scale ? 1.f
                                                         : 0.f;
  }
}

void load(Prepared& prepared, const RankBatch& batch, std::int64_t step) {
  const std::size_t bytes = std::size_t(prepared.executor.find(StepBuffers::tokens)->bytes());
  const View tokens = prepared.executor.find(StepBuffers::tokens).value(),
             targets = prepared.executor.find(StepBuffers::targets).value();
  for (int m = 0; m < prepared.program.schedule.micro_batches; ++m) {
    std::memcpy(prepared.executor.address(tokens, m), batch.ids.data() + std::size_t(m) * bytes / 4, bytes);
    std::memcpy(prepared.executor.address(targets, m), batch.targets.data() + std::size_t(m) * bytes / 4,
                bytes);
  }
  auto* scalars = reinterpret_cast<double*>(prepared.data(StepBuffers::scalars));
  scalars[OCT_SCALAR_LEARNING_RATE] = 1e-2;
  scalars[OCT_SCALAR_STEP] = double(step);
  scalars[OCT_SCALAR_INVERSE_TOKENS] = 1.0 / double(batch.global_valid_targets);
}

// Two steps: what the host reads of them, and the state they leave.
std::string outcome(Prepared& prepared, const Parameters& parameters, int rank) {
  initialise(prepared);
  std::string bytes;
  for (std::int64_t step = 1; step <= 2; ++step) {
    load(prepared, batch(parameters, rank, step), step);
    prepared.executor.run();
    bytes.append(reinterpret_cast<const char*>(prepared.data(StepBuffers::result)), 32);
    for (const char* name : {PrecisionBuffers::amax, PrecisionBuffers::counters})
      if (const int buffer = prepared.program.find_buffer(name); buffer >= 0)
        bytes.append(reinterpret_cast<const char*>(prepared.data(name)),
                     std::size_t(prepared.program.buffers[buffer].bytes));
  }
  for (const int b : persistent_buffers(prepared.program))
    bytes.append(reinterpret_cast<const char*>(prepared.data(prepared.program.buffers[b].name)),
                 std::size_t(prepared.program.buffers[b].bytes));
  return bytes;
}

void expect_changes(const Parameters& parameters, const World& world) {
  Machine machine(world, parameters);
  const StepProgram program =
      build_rank_programs(parameters, machine.target(), world.rank()).training.program;
  Prepared whole(machine, program);
  const std::string expected = outcome(whole, parameters, world.rank());
  ASSERT_TRUE(outcome(whole, parameters, world.rank()) == expected);
  int executed = 0;
  for (std::size_t s = 0; s < program.segments.size(); ++s)
    for (std::size_t i = 0; i < program.segments[s].operations.size(); ++i) {
      const Operation& deleted = program.segments[s].operations[i];
      StepProgram changed = program;
      changed.segments[s].operations.erase(changed.segments[s].operations.begin() + std::ptrdiff_t(i));
      derive_waits(changed);
      if (!verify_memory({"all", &changed}, plan_memory(changed).placement).empty()) continue;
      const MemoryClass written = program.buffers[deleted.operands.back().view.buffer].memory;
      if (deleted.op == OCT_COPY && written == MemoryClass::host) continue;  // then there is nothing to read
      Prepared broken(machine, std::move(changed));
      const bool differs = outcome(broken, parameters, world.rank()) != expected;
      EXPECT_TRUE(anywhere(world, differs))
          << "'" << deleted.label << "' (" << name(deleted.op) << ", " << program.segments[s].name << ")";
      ++executed;
    }
  EXPECT_GT(executed, 15);
}

TEST(Deletion, ChangesTheLossOrTheState) {
  const World world(MPI_COMM_WORLD);
  for (const Strings& grid : grids(world.size())) {
    const Strings sizes{"model.layers=1", text("batch.global=", 2 * (grid[0].back() - '0'))};
    expect_changes(small_model::parameters(with(grid, sizes)), world);
    expect_changes(small_model::fp8_parameters(with(with(grid, sizes), {"precision.amax_history=1"})), world);
  }
}

}  // namespace
}  // namespace octachoron::engine_test
