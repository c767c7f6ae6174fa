// Communication on many groups at once, hundreds of steps, ranks and lanes out of step: nothing hangs, and
// the members of each group post the same messages in the same order.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/base/text.h"
#include "core/numerics/random.h"
#include "tests/engine/rig.h"

namespace octachoron::engine_test {
namespace {

Strings smallest(const Strings& grid) {
  return with(grid, {"model.layers=1", "model.hidden=16", "model.heads=4", "model.sequence=8",
                     "model.vocab=20", "batch.global=4", "parallel.bucket=0.001"});
}

// The comm plugin compares kind, type, count and label of all members before each message.
TEST(NoHang, HundredsOfStepsOutOfStep) {
  const Environment check("OCTACHORON_CHECK_LABELS", "1");
  const World world(MPI_COMM_WORLD);
  if (world.size() == 1) GTEST_SKIP() << "one rank has nobody to wait for";
  Session session(smallest(grids(world.size())[world.size() == 4 ? 1 : 0]));
  for (int step = 0; step < 500; ++step) {
    const unsigned seed = unsigned(step * world.size() + world.rank());
    session.session.training().set_delays(seed, step % 4 == 0 ? 300 : 0);
    const StepResult result = session.step();
    ASSERT_TRUE(result.finite) << step;
  }
  session.expect_no_damage();
}

// I04: MPI libraries change protocol with the size of a message. Activations of 2, 4, 8, 64, 128 KiB and more
// than 1 MiB.
TEST(NoHang, MessagesOfAnySize) {
  const World world(MPI_COMM_WORLD);
  for (const auto& [sequence, micro] : {std::pair{8, 1}, {16, 1}, {32, 1}, {64, 4}, {64, 8}, {64, 72}}) {
    Session session(with(
        grids(world.size()).back(),
        {"model.layers=1", "model.hidden=64", "model.heads=4", "model.ffn=64",
         text("model.sequence=", sequence), text("batch.micro=", micro), text("batch.global=", 2 * micro)}));
    for (int step = 0; step < 2; ++step) ASSERT_TRUE(session.step().finite) << sequence << " " << micro;
    session.expect_no_damage();
  }
}

// Hash of the labels a rank executed in each group, in the order of time.
std::map<std::string, std::uint64_t> posted(const Executor& executor,
                                            std::span<const OperationRecord> records) {
  std::vector<const OperationRecord*> in_time;
  for (const OperationRecord& record : records)
    if (is_communication(record.issue->operation->op)) in_time.push_back(&record);
  std::stable_sort(in_time.begin(), in_time.end(),
                   [](const auto* a, const auto* b) { return a->begin_s < b->begin_s; });
  std::map<std::string, std::uint64_t> hashes;
  for (const OperationRecord* record : in_time) {
    const Peers& peers = record->issue->operation->peers;
    std::uint64_t& hash = hashes[to_string(peers.axes) + " (" + peers.purpose + ")"];
    hash = hash64(text(hash, describe(executor.program(), *record->issue)));
  }
  return hashes;
}

TEST(NoHang, MembersPostInOneOrder) {
  const World world(MPI_COMM_WORLD);
  for (const Strings& grid : grids(world.size())) {
    Session session(smallest(grid));
    session.step();
    Executor& training = session.session.training();
    for (const unsigned seed : {1u, 2u, 3u}) {
      training.set_delays(seed * 100 + unsigned(world.rank()), 1000);
      for (const auto& [group, hash] : posted(training, training.run_observed())) {
        std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
        world.allgather(&hash, all.data(), sizeof hash);
        // All ranks have one program, so groups of one kind agree over the whole grid.
        EXPECT_EQ(std::count(all.begin(), all.end(), hash), world.size()) << group;
      }
    }
  }
}

}  // namespace
}  // namespace octachoron::engine_test
