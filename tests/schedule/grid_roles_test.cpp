// The verdict of `plan` on the whole grid: all ranks have one role, and a rank that has another is seen.
#include "core/report/grid_roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "tests/schedule/small_model.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using Change = std::function<void(RankPrograms&)>;

// Ranks that are last along `axis` have changed programs.
GridRoles roles_with(const Parameters& parameters, Axis axis, const Change& change) {
  const ProcessGrid grid = small_model::grid(parameters);
  return grid_roles(grid, [&](int rank) {
    RankPrograms programs = small_model::programs(parameters, rank);
    if (grid.coordinate(rank)[int(axis)] == grid[axis] - 1) change(programs);
    return programs;
  });
}

Operation& first(StepProgram& program, AxisSet axes) {
  for (Segment& segment : program.segments)
    for (Operation& operation : segment.operations)
      if (is_communication(operation.op) && operation.peers.axes == axes) return operation;
  throw std::logic_error("no such communication");
}

TEST(GridRoles, AllRanksOfEveryGridHaveOne) {
  for (const auto& [name, overrides] : small_model::settings()) {
    const Parameters parameters = small_model::parameters(overrides);
    const ProcessGrid grid = small_model::grid(parameters);
    const GridRoles roles =
        grid_roles(grid, [&](int rank) { return small_model::programs(parameters, rank); });
    EXPECT_EQ(roles.programs.size(), 1u) << name;
    EXPECT_THAT(verify_roles(grid, roles).problems, IsEmpty()) << name;
  }
}

TEST(GridRoles, ARankWithAnotherProgramFailsTheVerdict) {
  const Parameters parameters = small_model::parameters({"grid.dp=2", "grid.tp=2", "batch.global=4"});
  const ProcessGrid grid = small_model::grid(parameters);
  for (const auto& [axis, group] : {std::pair{Axis::tp, AxisSet(Axis::tp)}, {Axis::dp, Axis::dp | Axis::cp}})
    for (const bool training : {true, false}) {
      const AxisSet axes = group;
      std::string label;
      const GridRoles roles = roles_with(parameters, axis, [&](RankPrograms& programs) {
        Operation& odd = first((training ? programs.training : programs.validation).program, axes);
        label = odd.label;
        odd.label += ".odd";
      });
      EXPECT_EQ(roles.programs.size(), 2u);
      const GridVerdict verdict = verify_roles(grid, roles);
      EXPECT_THAT(verdict.problems, Contains(AllOf(HasSubstr("mismatch on axes " + to_string(axes)),
                                                   HasSubstr("'" + label + "'"),
                                                   HasSubstr("'" + label + ".odd'"), HasSubstr(", role 1)"))))
          << name(axis) << (training ? ", training" : ", validation");
      EXPECT_THAT(verdict.symmetry, testing::Not(HasSubstr(name(axis))));
    }
}

TEST(GridRoles, ARankOfTheMiddleHasTheRoleOfTheFirst) {
  const Parameters parameters = small_model::parameters({"grid.tp=4"});
  const ProcessGrid grid = small_model::grid(parameters);
  const GridRoles roles = roles_with(parameters, Axis::tp, [](RankPrograms& programs) {
    programs.training.program.segments[0].name += ".odd";
  });
  const auto role_of = [&](int tp) { return roles.role_of(grid, Coordinate{tp, 0, 0, 0}); };
  for (const int tp : {0, 1, 2}) EXPECT_EQ(role_of(tp), 0) << tp;
  EXPECT_EQ(role_of(3), 1);
}

}  // namespace
}  // namespace octachoron
