#include "core/train/agreed_programs.h"

#include <algorithm>
#include <array>

#include "core/config/parameter_file.h"
#include "core/parallel/together.h"
#include "core/program/digest.h"
#include "core/train/run_state.h"

namespace octachoron {

namespace {

// Paths may differ between nodes, and so may what only sets the pace of a rank.
bool may_differ(const std::string& line) {
  for (const char* key : {"run.output", "run.wall_limit", "backend.plugin_path", "data.train",
                          "data.validation", "checkpoint.directory", "engine."})
    if (line.starts_with(key)) return true;
  return false;
}

// Seed and rate are in no program, but would leave replicas of the weights apart.
void refuse_other_parameters(const Parameters& parameters, const World& world) {
  std::vector<std::string> lines =
      parameter_differences(world.broadcast(format_parameters(parameters), 0), parameters);
  std::erase_if(lines, may_differ);
  agree_on_failure(world,
                   lines.empty() ? ""
                                 : text("rank ", world.rank(), " has other parameters than rank 0 (",
                                        lines.front(), "); give all ranks the same parameter file"),
                   ExitStatus::usage);
}

void refuse_other_programs(const RankPrograms& programs, const World& world) {
  // All ranks have one role.
  std::array<std::uint64_t, 3> mine{};
  std::size_t count = 0;
  programs.for_each([&](const char*, const PlannedProgram& planned) { mine[count++] = program_digest(planned.program); });
  std::vector<std::array<std::uint64_t, 3>> all(std::size_t(world.size()));
  world.allgather(&mine, all.data(), sizeof mine);
  const auto other =
      std::find_if(all.begin(), all.end(), [&](const auto& digests) { return digests != all.front(); });
  if (other != all.end())
    fail(ExitStatus::usage, "the ranks would run different programs (rank ", other - all.begin(),
         " another than rank 0); give all ranks the same parameter file and version");
}

}  // namespace

RankPrograms agreed_programs(const Parameters& parameters, const Target& target, const World& world) {
  RankPrograms programs =
      together(world, [&] { return build_rank_programs(parameters, target, world.rank()); });
  refuse_other_programs(programs, world);
  refuse_other_parameters(parameters, world);
  return programs;
}

}  // namespace octachoron
