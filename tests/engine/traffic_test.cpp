// What the comm plugin counted in a step is what the plan says.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/report/plan_report.h"
#include "tests/engine/rig.h"

namespace octachoron::engine_test {
namespace {

TEST(Traffic, OfAStepIsThePlanned) {
  const World world(MPI_COMM_WORLD);
  for (const Strings& grid : grids(world.size()))
    for (const char* sequence_parallel : {"on", "off"}) {
      Session session(with(grid, {"batch.global=8", text("parallel.sequence_parallel=", sequence_parallel)}));
      const std::string where = text(grid[0], " ", grid[1], ", sp ", sequence_parallel);
      session.step();
      session.session.groups().traffic(true);
      session.step();
      TrafficTable planned =
          planned_traffic(session.session.programs().training.program, session.session.grid());
      EXPECT_EQ(planned.empty(), world.size() == 1) << where;
      for (const GroupTable::Traffic& group : session.session.groups().traffic(true)) {
        const std::string name = to_string(group.axes) + " (" + group.purpose + ")";
        EXPECT_EQ(group.counters.calls, planned[name].calls) << where << ": " << name;
        EXPECT_EQ(group.counters.bytes_sent, planned[name].bytes) << where << ": " << name;
        planned.erase(name);
      }
      EXPECT_TRUE(planned.empty()) << where << ": " << (planned.empty() ? "" : planned.begin()->first);
    }
}

}  // namespace
}  // namespace octachoron::engine_test
