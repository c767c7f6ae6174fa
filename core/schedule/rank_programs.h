#pragma once
/// All a rank executes, built and planned: what the trainer runs, and what `plan` reports without running it.
#include <optional>

#include "core/program/memory.h"
#include "core/schedule/training_program.h"

namespace octachoron {

struct PlannedProgram {
  StepProgram program;
  MemoryPlan plan;
};

struct RankPrograms {
  QuantizationPlan quantization;
  ParameterSet set;
  PlannedProgram training, validation;
  std::optional<PlannedProgram> calibration;  ///< where scales come from histories

  /// Calls function(name, program) for each.
  template <class Function>
  void for_each(Function function) const {
    function("training", training), function("validation", validation);
    if (calibration) function("calibration", *calibration);
  }
  std::int64_t arena_bytes() const { return largest(&MemoryPlan::arena_bytes); }
  std::int64_t host_bytes() const { return largest(&MemoryPlan::host_bytes); }

 private:
  std::int64_t largest(std::int64_t MemoryPlan::*bytes) const {
    std::int64_t most = 0;
    for_each([&](const char*, const PlannedProgram& planned) { most = std::max(most, planned.plan.*bytes); });
    return most;
  }
};

/// Pure: the same for all ranks of a role but for the layouts of tensors and attributes of operations.
/// \param casts fused where the device can; apart for who wants to look at what is cast
RankPrograms build_rank_programs(const Parameters& parameters, const Target& target, int rank,
                                 Casts casts = Casts::fused);

}  // namespace octachoron
