#include "tests/engine/rig.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "core/base/text.h"
#include "core/numerics/random.h"
#include "tests/schedule/small_model.h"

namespace octachoron::engine_test {

std::vector<Strings> grids(int ranks) {
  std::vector<Strings> result;
  for (int tp = 1; tp <= ranks && tp <= 4; tp *= 2)
    if (ranks % tp == 0) result.push_back({text("grid.dp=", ranks / tp), text("grid.tp=", tp)});
  return result;
}

Strings with(Strings overrides, const Strings& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

Environment::Environment(const char* name, const char* value) : name_(name) {
  setenv(name, value, 1);
}
Environment::~Environment() {
  unsetenv(name_);
}

RankBatch batch(const Parameters& parameters, int rank, std::int64_t step) {
  const ProcessGrid grid = small_model::grid(parameters);
  const BatchShape shape{parameters.batch.global, parameters.batch.micro, parameters.grid.dp,
                         grid.coordinate(rank)[int(Axis::dp)]};
  const std::int64_t sequence = parameters.model.sequence, vocab = parameters.model.vocab;
  RankBatch batch;
  for (std::int64_t m = 0; m < shape.micro_batches(); ++m)
    for (std::int64_t row = 0; row < shape.micro; ++row) {
      const std::string sample = text("sample ", shape.position(step * shape.global, m, row), " ");
      for (std::int64_t t = 0; t < sequence; ++t) {
        batch.ids.push_back(std::int32_t(hash64(text(sample, t)) % std::uint64_t(vocab)));
        batch.targets.push_back(std::int32_t(hash64(text(sample, t + 1)) % std::uint64_t(vocab)));
      }
    }
  batch.valid_targets = std::int64_t(batch.targets.size());
  batch.global_valid_targets = shape.global * sequence;
  return batch;
}

Session::Session(const Strings& overrides)
    : world(MPI_COMM_WORLD),
      parameters(small_model::parameters(overrides)),
      backend(parameters, world),
      session(parameters, world, backend) {
  session.initialise();
}

StepResult Session::step() {
  const RankBatch input = batch(parameters, world.rank(), steps_);
  return last_ = session.step(input, 1e-2, ++steps_);
}

std::string Session::bits() {
  std::string bytes(2 * sizeof(double), '\0');
  std::memcpy(bytes.data(), &last_.loss, sizeof(double));
  std::memcpy(bytes.data() + sizeof(double), &last_.grad_norm, sizeof(double));
  for (const CheckpointTensor& tensor : session.state())
    for (const auto& range : tensor.ranges)
      bytes.append(static_cast<const char*>(static_cast<const void*>(range.data)),
                   std::size_t((range.flat_end - range.flat_begin) * size_of(range.dtype)));
  return bytes;
}

void Session::expect_no_damage() {
  EXPECT_TRUE(session.arena().guard_intact());
  EXPECT_EQ(backend.communicator().poll_error(), "");
  EXPECT_EQ(backend.device().poll_error(), "");
}

Machine::Machine(const World& w, const Parameters& parameters)
    : world(w),
      grid(small_model::grid(parameters)),
      backend(parameters, w),
      groups(backend.communicator(), grid, w.rank()),
      lanes(backend.device()) {}

Prepared::Prepared(Machine& machine, StepProgram p)
    : program(std::move(p)),
      plan(plan_memory(program)),
      arena(machine.backend.device(), plan.arena_bytes, plan.host_bytes),
      executor(program, plan,
               {machine.backend.device(), machine.backend.communicator(), machine.groups, machine.lanes,
                arena, machine.grid, machine.world.rank()}) {}

std::byte* Prepared::data(const std::string& buffer) const {
  return executor.address(View{program.find_buffer(buffer)});
}

std::int64_t persistent_bytes(const PlannedProgram& planned) {
  const StepProgram& program = planned.program;
  std::int64_t end = 0;
  for (int b = 0; b < int(program.buffers.size()); ++b)
    if (program.buffers[b].persistent)
      end = std::max(end,
                     planned.plan.placement[b * program.instances_per_buffer()] + program.buffers[b].bytes);
  return end;
}

bool anywhere(const World& world, bool here) {
  return world.maximum(std::int64_t(here)) != 0;
}

}  // namespace octachoron::engine_test
