#pragma once
/// All a rank executes, built and planned: what the trainer runs, and what `plan` reports without running it.
#include "core/program/memory.h"
#include "core/schedule/training_program.h"

namespace octachoron {

struct PlannedProgram {
  BuiltProgram built;
  MemoryPlan plan;
};

struct RankPrograms {
  ParameterSet set;
  PlannedProgram training, validation;

  std::int64_t arena_bytes() const { return std::max(training.plan.arena_bytes, validation.plan.arena_bytes); }
  std::int64_t host_bytes() const { return std::max(training.plan.host_bytes, validation.plan.host_bytes); }
};

/// Pure: the same for all ranks of a role but for the layouts of tensors and attributes of operations.
RankPrograms build_rank_programs(const Parameters& parameters, const Target& target, int rank);

}  // namespace octachoron
