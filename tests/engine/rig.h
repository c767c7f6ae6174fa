#pragma once
/// What tests of the engine run on: the product's own session, or programs of their own on its plugins. The
/// grid is made of all ranks of the launch; everything here is collective over them.
#include <functional>
#include <string>
#include <vector>

#include "core/parallel/world.h"
#include "core/train/session.h"

namespace octachoron::engine_test {

using Strings = std::vector<std::string>;

/// Overrides that make a grid of all ranks: {"grid.dp=2", "grid.tp=2"}, ... One for each way to split them.
std::vector<Strings> grids(int ranks);
Strings with(Strings overrides, const Strings& more);

/// An environment variable while it lives.
class Environment {
 public:
  Environment(const char* name, const char* value);
  ~Environment();
  Environment(const Environment&) = delete;

 private:
  const char* name_;
};

/// What this rank reads in a step: random ids, the same samples on every grid.
RankBatch batch(const Parameters& parameters, int rank, std::int64_t step);

/// A training session on the small model of tests/schedule.
class Session {
 public:
  explicit Session(const Strings& overrides);
  StepResult step();
  /// Loss, gradient norm, masters and moments of this rank, as they are in memory.
  std::string bits();
  void expect_no_damage();  ///< guards, errors of plugins

  World world;
  Parameters parameters;
  Backend backend;
  TrainingSession session;

 private:
  std::int64_t steps_ = 0;
  StepResult last_;
};

/// Plugins and grid without a model, for programs of the test.
struct Machine {
  Machine(const World& world, const Parameters& parameters);
  Target target() { return {grid, &backend.device(), &backend.recipe()}; }

  const World& world;
  ProcessGrid grid;
  Backend backend;
  GroupTable groups;
  LaneSet lanes;
};

/// A program made ready to run.
struct Prepared {
  Prepared(Machine& machine, StepProgram program);
  std::byte* data(const std::string& buffer) const;

  StepProgram program;
  MemoryPlan plan;
  Arena arena;
  Executor executor;
};

/// Where the part of the arena ends that outlives a step.
std::int64_t persistent_bytes(const PlannedProgram& planned);

/// Whether it holds on one rank at least; the same answer on all.
bool anywhere(const World& world, bool here);

}  // namespace octachoron::engine_test
