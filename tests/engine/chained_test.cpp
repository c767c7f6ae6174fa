// Comm plugins that say is_concurrent 0 get one message at a time, in program order across lanes, and the
// numbers are those of a network that runs its groups side by side.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/text.h"
#include "tests/engine/rig.h"

namespace octachoron::engine_test {
namespace {

const std::string kChained = "backend.comm=" OCTACHORON_CHAINED_PLUGIN;
const Strings kSmallBuckets = {"parallel.bucket=0.005"};  // many messages on several lanes

// Messages that began before the one before them in program order had ended.
int overtaking(Session& session, unsigned seed) {
  Executor& training = session.session.training();
  training.set_delays(seed, 1000);
  std::vector<OperationRecord> messages;
  for (const OperationRecord& record : training.run_observed())
    if (is_communication(record.issue->operation->op)) messages.push_back(record);
  const auto by_program = [](const OperationRecord& a, const OperationRecord& b) {
    return a.issue < b.issue;
  };
  std::sort(messages.begin(), messages.end(), by_program);
  int count = 0;
  for (std::size_t i = 1; i < messages.size(); ++i) count += messages[i].begin_s < messages[i - 1].end_s;
  EXPECT_GT(messages.size(), 10u);
  return count;
}

TEST(Chained, MessagesGoOneByOneInProgramOrder) {
  const World world(MPI_COMM_WORLD);
  if (world.size() == 1) GTEST_SKIP() << "one rank sends nothing";
  for (const Strings& grid : grids(world.size())) {
    Session chained(with(with(grid, kSmallBuckets), {kChained})), free(with(grid, kSmallBuckets));
    EXPECT_EQ(chained.backend.communicator().is_concurrent(), false);
    chained.step(), free.step();
    int unchained = 0;
    for (const unsigned seed : {1u, 2u, 3u}) {
      const unsigned own = seed * 100 + unsigned(world.rank());
      EXPECT_EQ(overtaking(chained, own), 0) << grid[0] << " " << grid[1];
      unchained += overtaking(free, own);
    }
    const bool overtook = anywhere(world, unchained > 0);
    EXPECT_TRUE(overtook || grid[0] == "grid.dp=1" || grid[1] == "grid.tp=1")
        << "lanes that never overtake each other prove nothing";
  }
}

TEST(Chained, SameBits) {
  const World world(MPI_COMM_WORLD);
  for (const Strings& grid : grids(world.size())) {
    Session chained(with(with(grid, kSmallBuckets), {kChained})), free(with(grid, kSmallBuckets));
    for (int step = 0; step < 5; ++step) {
      chained.session.training().set_delays(unsigned(step * world.size() + world.rank() + 1), 300);
      EXPECT_TRUE(chained.step().finite);
      free.step();
      ASSERT_EQ(chained.bits(), free.bits()) << grid[0] << " " << grid[1] << ", step " << step;
    }
    chained.expect_no_damage();
  }
}

}  // namespace
}  // namespace octachoron::engine_test
