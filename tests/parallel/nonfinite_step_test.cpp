// A step that is not finite changes nothing that outlives it, on no rank, whichever rank saw it.
#include <algorithm>
#include <utility>

#include "core/model/parameter_buffers.h"
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

  // Runs the last step once more with a NaN planted in the reduced gradient of one rank, behind the
  // reduction.
  static double flag_with_planted_gradient(Trial& trial, int on, int bucket) {
    Executor& executor = trial.session().training();
    const StepProgram& program = executor.program();
    const auto in_agreement = [&](const Issue& issue) {
      return program.segments[program.schedule.calls[issue.call].segment].name == "agree";
    };
    const auto& issues = executor.expansion().issues;
    const auto agreement = std::find_if(issues.begin(), issues.end(), in_agreement);
    ensure(agreement != issues.begin() && agreement != issues.end(), "the program has no segment 'agree'");
    const View shard =
        executor.find(ParameterBuffers::gradient_shard_name(trial.session().programs().set, bucket)).value();
    executor.run_stepwise([&](const Issue& issue) {
      if (&issue == &*(agreement - 1) && trial.rank() == on)
        *reinterpret_cast<double*>(executor.address(shard)) = std::numeric_limits<double>::quiet_NaN();
    });
    return reinterpret_cast<const double*>(executor.address(executor.find(StepBuffers::result).value()))[2];
  }
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInfinity = std::numeric_limits<double>::infinity();

TEST_F(NonFiniteStep, OneRank) {
  check(parameters(1, 1), 0, "/master/layers.0.mlp.fc1.weight", kNan);
}

TEST_F(NonFiniteStep, OnAnyRankOfFour) {
  // In buckets of one tensor every rank keeps a part of fc2: dp shards it, tp splits it.
  const std::string tensor = "/master/layers.1.mlp.fc2.weight";
  for (const auto& [dp, tp] : {std::pair{2, 2}, {4, 1}, {1, 4}}) {
    const Parameters p = parameters(dp, tp, {"parallel.bucket=0.0005"});
    check(p, 0, tensor, kNan);
    check(p, 3, tensor, kInfinity);
  }
}

TEST_F(NonFiniteStep, InOneCopyOfAReplicatedParameter) {
  for (int rank : {0, 3}) check(parameters(1, 4), rank, "/master/norm.bias", kNan);
}

TEST_F(NonFiniteStep, InTheGradientOfOneRank) {  // A27
  for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}, {4, 1}, {1, 4}})
    for (int on : {0, dp * tp - 1})
      on_grid(parameters(dp, tp), [&, dp = dp, tp = tp](Trial& trial) {
        EXPECT_TRUE(trial.step().finite);
        const std::string before = trial.state_bytes();
        const ParameterSet& set = trial.session().programs().set;
        for (int bucket = 0; bucket < int(set.buckets.size()); ++bucket) {
          if (set.buckets[bucket].replicated && tp > 1) continue;  // its copies come out of one reduction
          SCOPED_TRACE(
              text("dp=", dp, " tp=", tp, " bucket ", bucket, " on rank ", on, " seen by ", trial.rank()));
          EXPECT_EQ(flag_with_planted_gradient(trial, on, bucket), 0);
          EXPECT_TRUE(trial.state_bytes() == before);
        }
        EXPECT_TRUE(trial.step().finite);
        EXPECT_TRUE(trial.state_bytes() != before);
      });
}

}  // namespace

}  // namespace octachoron::parity
