#include "core/report/grid_roles.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/program/digest.h"
#include "core/program/verify.h"

namespace octachoron {

namespace {

std::vector<std::uint64_t> digests_of(const RankPrograms& programs) {
  std::vector<std::uint64_t> digests;
  programs.for_each(
      [&](const char*, const PlannedProgram& planned) { digests.push_back(program_digest(planned.program)); });
  return digests;
}

unsigned corner_of(const ProcessGrid& grid, const Coordinate& at) {
  unsigned corner = 0;
  for (int axis = 0; axis < kAxes; ++axis)
    if (at[axis] > 0 && at[axis] == grid.extent[axis] - 1) corner |= 1u << axis;
  return corner;
}

const PlannedProgram& program_called(const RankPrograms& programs, const std::string& name) {
  const PlannedProgram* found = nullptr;
  programs.for_each([&](const char* of, const PlannedProgram& planned) {
    if (of == name) found = &planned;
  });
  ensure(found != nullptr, "a role has no ", name, " program");
  return *found;
}

void verify(const ProcessGrid& grid, const GridRoles& roles, const std::string& name, GridVerdict& verdict) {
  std::vector<Role> named;
  for (const RankPrograms& programs : roles.programs) {
    const PlannedProgram& planned = program_called(programs, name);
    named.push_back({named.empty() ? name : text(name, ", role ", named.size()), &planned.program});
    for (std::string& problem : verify_memory(named.back(), planned.plan.placement))
      verdict.problems.push_back(std::move(problem));
  }
  const auto role_of = [&](const Coordinate& at) { return roles.role_of(grid, at); };
  for (const Queues queues : {Queues::serial, Queues::chained, Queues::lanes}) {
    OrderReport order = verify_order(grid, named, role_of, queues);
    verdict.symmetry = order.symmetry;
    for (std::string& problem : order.problems) verdict.problems.push_back(std::move(problem));
  }
}

}  // namespace

int GridRoles::role_of(const ProcessGrid& grid, const Coordinate& at) const {
  return role_of_corner[corner_of(grid, at)];
}

GridRoles grid_roles(const ProcessGrid& grid, const std::function<RankPrograms(int rank)>& build) {
  GridRoles roles;
  roles.role_of_corner.assign(1u << kAxes, 0);
  std::vector<std::vector<std::uint64_t>> known;
  for (unsigned corner = 0; corner < roles.role_of_corner.size(); ++corner) {
    Coordinate at{};
    for (int axis = 0; axis < kAxes; ++axis) at[axis] = corner >> axis & 1 ? grid.extent[axis] - 1 : 0;
    if (corner_of(grid, at) != corner) continue;  // an axis of one rank has no other end
    RankPrograms programs = build(grid.rank(at));
    const std::vector<std::uint64_t> digests = digests_of(programs);
    const auto found = std::find(known.begin(), known.end(), digests);
    roles.role_of_corner[corner] = int(found - known.begin());
    if (found != known.end()) continue;
    known.push_back(digests);
    roles.programs.push_back(std::move(programs));
  }
  return roles;
}

GridVerdict verify_roles(const ProcessGrid& grid, const GridRoles& roles) {
  GridVerdict verdict;
  roles.programs.front().for_each(
      [&](const char* name, const PlannedProgram&) { verify(grid, roles, name, verdict); });
  return verdict;
}

}  // namespace octachoron
