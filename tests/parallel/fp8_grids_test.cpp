// FP8 on grids against one rank. Scales are no powers of two: where the last bit of one amax differs, all
// roundings do. So losses are compared loosely, and tightly where nothing but the order of sums differs.
#include "tests/parallel/fp8_fixture.h"

namespace octachoron::parity {

namespace {

class Fp8Grids : public Fp8Test {
 protected:
  Trajectory run_on(const Parameters& parameters, int steps, const std::vector<int>& gradients = {}) const {
    Trajectory trajectory;
    on_first_ranks(MPI_COMM_WORLD, grid_of(parameters).size(),
                   [&](MPI_Comm part) { trajectory = run(parameters, part, steps, gradients); });
    return trajectory;
  }
  static bool first_rank() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == 0;
  }
};

TEST_F(Fp8Grids, LearnAsOneRank) {
  for (const char* recipe : {"fp8-delayed", "fp8-current"}) {
    const std::string precision = text("backend.precision=", recipe);
    const Trajectory one = run_on(parameters(1, 1, {precision}), 10);
    for (const auto& [dp, tp] :
         {std::pair{1, 2}, {1, 4}, {1, 8}, {2, 1}, {2, 2}, {2, 4}, {4, 1}, {4, 2}, {8, 1}})
      for (const std::string& sequence : sequence_parallel(tp)) {
        const Trajectory grid =
            run_on(parameters(dp, tp, {precision, text("parallel.sequence_parallel=", sequence)}), 10);
        if (!first_rank()) continue;
        EXPECT_GT(one.loss.front() - one.loss.back(), 0.3);
        double worst = 0;
        for (int step = 0; step < 10; ++step)
          worst = std::max(worst, relative(grid.loss[step], one.loss[step]));
        EXPECT_LE(worst, 2e-3) << recipe << " dp=" << dp << " tp=" << tp << " sp " << sequence;
      }
  }
}

// The same micro-batches on more ranks: bytes and scales are the same, and gradients differ by the order of
// their sums.
TEST_F(Fp8Grids, OverDataDifferByTheOrderOfSums) {
  Trajectory one;
  std::vector<float> expected;
  for (const int dp : {1, 2, 4, 8})
    on_grid(parameters(dp, 1, {"batch.micro=2"}), [&](Trial& trial) {
      SCOPED_TRACE(text("dp=", dp));
      trial.step(trial.next_batch(), 0);
      const std::vector<float> all = tables(trial);
      const Tensors gradients = trial.gradients();
      if (dp == 1) expected = all, one.gradients[1] = gradients;
      if (trial.rank() > 0) return;
      EXPECT_EQ(all, expected);
      const Deviation deviation = relative_deviation(gradients, one.gradients[1]);
      EXPECT_LE(deviation.value, 1e-6) << deviation.tensor;
    });
}

}  // namespace

}  // namespace octachoron::parity
