// What must be equal to the last bit.
#include "tests/parallel/grid_fixture.h"

namespace octachoron::parity {

namespace {

struct Bits {
  std::vector<double> loss, grad_norm;
  std::string state;  // of this rank
  bool operator==(const Bits&) const = default;
};

class Bitwise : public GridTest {
 protected:
  static Bits steps(Trial& trial, int count) {
    Bits bits;
    for (int i = 0; i < count; ++i) {
      const StepResult result = trial.step();
      EXPECT_TRUE(result.finite);
      bits.loss.push_back(result.loss);
      bits.grad_norm.push_back(result.grad_norm);
    }
    bits.state = trial.state_bytes();
    EXPECT_FALSE(bits.state.empty());
    return bits;
  }
  Bits run(
      const Parameters& parameters, int count,
      const std::function<void(Trial&)>& prepare = [](Trial&) {}) const {
    Bits bits;
    on_grid(parameters, [&](Trial& trial) {
      prepare(trial);
      bits = steps(trial, count);
    });
    return bits;
  }
};

TEST_F(Bitwise, RerunsAreEqualWhateverTheTimingOfTheLanes) {
  for (const auto& [dp, tp] : {std::pair{2, 2}, {4, 1}, {1, 4}}) {
    SCOPED_TRACE(text("dp=", dp, " tp=", tp));
    const Parameters p = parameters(dp, tp, {"backend.precision=fp32", "parallel.bucket=0.001"});
    const Bits first = run(p, 5);
    EXPECT_EQ(first, run(p, 5));
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    EXPECT_EQ(first, run(p, 5, [&](Trial& trial) {
                trial.session().training().set_delays(unsigned(rank + 1), 300);
              }));
  }
}

TEST_F(Bitwise, PoisonedMemoryChangesNothing) {  // E13
  for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}, {4, 1}, {1, 4}})
    for (const std::string& mode : sequence_parallel(tp)) {
      SCOPED_TRACE(text("dp=", dp, " tp=", tp, " sp ", mode));
      const Parameters p =
          parameters(dp, tp, {"backend.precision=fp32", text("parallel.sequence_parallel=", mode)});
      const Bits clean = run(p, 2);
      EXPECT_EQ(clean, run(p, 2, [](Trial& trial) { trial.poison(); }));
    }
}

TEST_F(Bitwise, CopiesStayEqualOverTwentySteps) {  // B01
  for (const auto& [dp, tp] : {std::pair{1, 2}, {1, 4}, {2, 2}})
    for (const std::string& mode : sequence_parallel(tp)) {
      SCOPED_TRACE(text("dp=", dp, " tp=", tp, " sp ", mode));
      const Parameters p =
          parameters(dp, tp, {"backend.precision=fp32", text("parallel.sequence_parallel=", mode)});
      on_grid(p, [](Trial& trial) {
        for (int step = 1; step <= 20; ++step) trial.step();
        EXPECT_EQ(trial.unequal_copies(), std::vector<std::string>{});
      });
    }
}

TEST_F(Bitwise, InitialWeightsAreTheSameOnEveryGrid) {  // L01
  Tensors one;
  on_grid(parameters(1, 1), [&](Trial& trial) { one = trial.masters(); });
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const auto& [dp, tp] : {std::pair{1, 2}, {1, 4}, {2, 1}, {4, 1}, {2, 2}, {3, 1}})
    on_grid(parameters(dp, tp, {"batch.global=12", "parallel.bucket=0.001"}), [&](Trial& trial) {
      const Tensors masters = trial.masters();
      EXPECT_TRUE(rank != 0 || masters == one) << "dp=" << dp << " tp=" << tp;
    });
}

TEST_F(Bitwise, BucketSizeDoesNotMatter) {  // E10, E06
  // Sums over at most two ranks do not depend on where a bucket is cut; the norm's sum does, so it must not
  // clip.
  for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 1}, {2, 2}}) {
    SCOPED_TRACE(text("dp=", dp, " tp=", tp));
    std::vector<Bits> runs;
    for (const char* mebibytes : {"0.0009765625", "1", "1024"})
      runs.push_back(run(parameters(dp, tp,
                                    {"backend.precision=fp32", "batch.micro=2", "optimizer.clip=0",
                                     text("parallel.bucket=", mebibytes)}),
                         5));
    EXPECT_EQ(runs[0].loss, runs[2].loss);
    EXPECT_EQ(runs[1].loss, runs[2].loss);
    for (std::size_t s = 0; s < runs[0].grad_norm.size(); ++s)
      EXPECT_LE(relative(runs[0].grad_norm[s], runs[2].grad_norm[s]), 1e-12);
  }
}

TEST_F(Bitwise, BucketSizeMattersOnlyByRoundingOnMoreRanks) {  // E10
  const auto losses = [&](const char* mebibytes) {
    return run(parameters(4, 1, {text("parallel.bucket=", mebibytes)}), 5).loss;
  };
  const std::vector<double> small = losses("0.0009765625"), large = losses("1024");
  for (std::size_t s = 0; s < small.size(); ++s) EXPECT_LE(relative(small[s], large[s]), 1e-13);
}

}  // namespace

}  // namespace octachoron::parity
