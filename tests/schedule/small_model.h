#pragma once
/// Parameter sets of small models as a user would write them, and the programs that the product builds of
/// them.
#include <string>
#include <vector>

#include "core/config/parameters.h"
#include "core/parallel/process_grid.h"
#include "core/program/verify.h"
#include "core/schedule/rank_programs.h"

namespace octachoron::small_model {

/// Two layers of width 32; `overrides` as after --set. Complete, legal, plugins of the build tree.
Parameters parameters(const std::vector<std::string>& overrides);
/// Delayed scaling on sizes that FP8 takes; an override wins over these, and over earlier ones.
Parameters fp8_parameters(const std::vector<std::string>& overrides);
ProcessGrid grid(const Parameters& parameters);
/// Of a rank, on the device cpu, without a launch.
RankPrograms programs(const Parameters& parameters, int rank = 0);

struct Setting {
  std::string name;
  std::vector<std::string> overrides;
};
/// Grids of one to four ranks, with and without sequence parallelism, tied or not, 1 or 3 micro-batches.
std::vector<Setting> settings();

/// The programs of all ranks: those of `odd` ranks are `odd`, the others' `common`.
struct Mixed {
  const StepProgram* common;
  const StepProgram* odd;
  std::vector<int> odd_ranks;
};
std::vector<std::string> order_problems(const ProcessGrid& grid, const Mixed& programs, Queues queues);

/// Of all ranks alike, under the three kinds of queues, collapsed and rank by rank; and of the memory.
std::vector<std::string> all_problems(const ProcessGrid& grid, const PlannedProgram& planned);

/// Operations of the step that satisfy the predicate, each call counted.
template <class Predicate>
int count(const StepProgram& program, Predicate predicate) {
  int found = 0;
  for (const Call& call : program.schedule.calls)
    for (const Operation& operation : program.segments[call.segment].operations)
      found += predicate(operation);
  return found;
}

Segment& segment(StepProgram& program, const std::string& name);

}  // namespace octachoron::small_model
