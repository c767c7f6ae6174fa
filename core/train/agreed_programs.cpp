#include "core/train/agreed_programs.h"

#include <algorithm>
#include <array>

#include "core/config/parameter_file.h"
#include "core/numerics/checksum.h"
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

// Tokens, and a hash of the first, the middle and the last sample; zeros without data.
std::array<std::uint64_t, 2> fingerprint(const TokenData* data) {
  if (data == nullptr) return {0, 0};
  std::vector<std::int32_t> ids(std::size_t(data->sequence())), targets(ids.size());
  std::uint64_t hash = 0;
  for (const std::int64_t sample : {std::int64_t{0}, data->samples() / 2, data->samples() - 1}) {
    data->sample(sample, false, ids.data(), targets.data());
    for (const std::int32_t id : ids) hash = splitmix64(hash + std::uint64_t(id));
  }
  return {std::uint64_t(data->tokens()), hash};
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

// They decide what a rank does next, and seed and rate, which are in no program, whether replicas stay equal:
// so they are compared before anything else.
void agree_on_parameters(const Parameters& parameters, bool check, const World& world) {
  const std::string root = world.broadcast(format_parameters(parameters), 0);
  std::vector<std::string> lines = parameter_differences(root, parameters);
  std::erase_if(lines, may_differ);
  if ((world.broadcast(std::uint64_t(check), 0) != 0) != check)
    lines.push_back(check ? "--check: off -> on" : "--check: on -> off");
  agree_on_failure(world,
                   lines.empty()
                       ? ""
                       : text("rank ", world.rank(), " has other parameters than rank 0 (", lines.front(),
                              "); give all ranks the same parameter file and options"),
                   ExitStatus::usage);
}

void agree_on_data(const TokenData& training, const TokenData* validation, const World& world) {
  for (const TokenData* data : {&training, validation}) {
    const auto mine = together(world, [&] { return fingerprint(data); });
    const std::uint64_t tokens = world.broadcast(mine[0], 0), hash = world.broadcast(mine[1], 0);
    std::string other;
    if (mine != std::array{tokens, hash})
      other = text("rank ", world.rank(), " has other ", data == &training ? "training" : "validation",
                   " data than rank 0 (", mine[0], " tokens, rank 0 ", tokens,
                   mine[0] == tokens ? ", of other ids" : "", "); give all ranks the same files");
    agree_on_failure(world, other, ExitStatus::data);
  }
}

RankPrograms agreed_programs(const Parameters& parameters, const Target& target, const World& world, Casts casts) {
  RankPrograms programs =
      together(world, [&] { return build_rank_programs(parameters, target, world.rank(), casts); });
  refuse_other_programs(programs, world);
  return programs;
}

}  // namespace octachoron
