// A step that is not finite changes nothing that outlives it, on no rank, whichever rank saw it.
#include <utility>

#include "tests/parallel/grid_fixture.h"

namespace octachoron::parity {

namespace {

class NonFiniteStep : public GridTest {
 protected:
  // The first element of the first part of a tensor that rank `rank` keeps.
  static void* element_of(Trial& trial, const std::string& path) {
    for (const CheckpointTensor& part : trial.session().state())
      if (part.path == path && !part.ranges.empty()) return part.ranges.front().data;
    return nullptr;
  }

  // Plants `value` on one rank, which must keep a part of the tensor, and takes it away after a step.
  void check(const Parameters& parameters, int on, const std::string& tensor, double value) const {
    SCOPED_TRACE(text(to_string(grid_of(parameters)), ", ", value, " on rank ", on, " in ", tensor));
    std::string expected;
    on_grid(parameters, [&](Trial& trial) {
      for (int step = 0; step < 4; ++step) EXPECT_TRUE(trial.step().finite);
      expected = trial.state_bytes();
    });
    on_grid(parameters, [&](Trial& trial) {
      trial.step(), trial.step();
      auto* planted = static_cast<double*>(element_of(trial, tensor));
      double kept = 0;
      if (trial.rank() == on) {
        ensure(planted, "rank ", on, " keeps nothing of ", tensor);
        kept = std::exchange(*planted, value);
      }
      const std::string before = trial.state_bytes();
      const GlobalBatch batch = trial.next_batch();
      EXPECT_FALSE(trial.step(batch, 3e-3).finite) << "rank " << trial.rank();
      EXPECT_TRUE(trial.state_bytes() == before) << "rank " << trial.rank();
      if (trial.rank() == on) *planted = kept;
      for (int step = 0; step < 2; ++step) EXPECT_TRUE(trial.step().finite);
      EXPECT_TRUE(trial.state_bytes() == expected)
          << "a skipped step left something behind on rank " << trial.rank();
    });
  }
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInfinity = std::numeric_limits<double>::infinity();

TEST_F(NonFiniteStep, OneRank) {
  check(parameters(1, 1), 0, "/master/layers.0.mlp.fc1.weight", kNan);
}

TEST_F(NonFiniteStep, OnAnyRankOfFour) {
  // Of fc2 every rank keeps a part: dp shards it, tp splits it.
  for (const auto& [dp, tp] : {std::pair{2, 2}, {4, 1}, {1, 4}})
    for (int rank : {0, 3}) {
      check(parameters(dp, tp, {"parallel.bucket=0.0005"}), rank, "/master/layers.1.mlp.fc2.weight", kNan);
      check(parameters(dp, tp, {"parallel.bucket=0.0005"}), rank, "/master/layers.1.mlp.fc2.weight",
            kInfinity);
    }
}

TEST_F(NonFiniteStep, InOneCopyOfAReplicatedParameter) {
  for (int rank : {0, 1, 3}) check(parameters(1, 4), rank, "/master/norm.bias", kNan);
}

}  // namespace

}  // namespace octachoron::parity
