// Steps that begin with tensors of which nothing is known, and scales that follow what training does to them.
#include <algorithm>
#include <cmath>

#include "tests/parallel/fp8_fixture.h"

namespace octachoron::parity {

namespace {

class Fp8Calibration : public Fp8Test {
 protected:
  static const PrecisionRecord record(Trial& trial, const std::string& tensor) {
    return trial.session().precision_records()[std::size_t(row(trial, tensor))];
  }
};

const std::vector<std::string> kProjections{"layers.0.attention.out", "layers.0.mlp.fc2",
                                            "layers.1.attention.out", "layers.1.mlp.fc2"};

TEST_F(Fp8Calibration, OfProjectionsThatStartAtZero) {  // A03
  for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}})
    on_grid(parameters(dp, tp), [&, dp = dp, tp = tp](Trial& trial) {
      SCOPED_TRACE(text("dp=", dp, " tp=", tp));
      for (const std::string& projection : kProjections) {
        for (const std::span<float> part : masters(trial, projection + ".weight"))
          std::fill(part.begin(), part.end(), 0.f);
        plant(trial, projection + ".weight", {}, 1);
      }
      const GlobalBatch batch = trial.next_batch();
      const StepResult first = trial.step(batch, 1e-7);  // Adam moves weights by the rate
      EXPECT_TRUE(first.finite);
      EXPECT_NEAR(first.loss, std::log(kVocab), 0.05);
      EXPECT_EQ(first.calibrations, 1);
      // The gradient behind a projection of zeros is zero: recorded as such, the scale as it was.
      EXPECT_EQ(record(trial, "layers.0.mlp.fc1.grad_output").amax, 0);
      EXPECT_EQ(scale(trial, "layers.0.mlp.fc1.grad_output"), 1);
      EXPECT_EQ(history(trial, "layers.0.mlp.fc1.grad_output")[0], 0);
      // The projection itself was recorded as it was written, about 1e-7.
      EXPECT_GT(history(trial, "layers.0.mlp.fc2.weight")[0], 0);
      EXPECT_LT(history(trial, "layers.0.mlp.fc2.weight")[0], 1e-6);

      const StepResult second = trial.step(batch, 1e-7);
      EXPECT_TRUE(second.finite);
      EXPECT_EQ(second.calibrations, 1);
      const PrecisionRecord gradient = record(trial, "layers.0.mlp.fc1.grad_output");
      EXPECT_GT(gradient.amax, 0);
      EXPECT_LT(gradient.amax, 1e-6);  // without a calibration E5M2 would flush all of it
      EXPECT_LT(gradient.flushed, std::uint64_t(kGlobal * kSequence * 128 / 50));
      EXPECT_GT(scale(trial, "layers.0.mlp.fc1.grad_output"), 1e9f);
      EXPECT_EQ(trial.step(batch, 1e-7).calibrations, 0);
    });
}

TEST_F(Fp8Calibration, IsTriedThreeTimesThenTrainingGoesOn) {
  on_grid(parameters(1, 2, {"model.init_std=0"}), [&](Trial& trial) {  // all is zero for ever
    for (int step = 1; step <= 6; ++step) {
      const StepResult result = trial.step();
      EXPECT_EQ(result.calibrations, step <= 3 ? 1 : 0);
      EXPECT_EQ(trial.session().given_up().size(), step >= 3 ? 16u : 0u);  // all but weights
      EXPECT_TRUE(result.finite);
      EXPECT_NEAR(result.loss, std::log(kVocab), 1e-6);
      for (std::size_t row = 0; row < plan(trial).tensors.size(); ++row) {
        EXPECT_EQ(trial.session().precision().scale(int(row)), 1);
        EXPECT_EQ(trial.session().precision_records()[row].nonfinite, 0u);
      }
    }
  });
}

// A tensor that knows nothing is calibrated; the others keep what they know, and so does the state.
TEST_F(Fp8Calibration, ChangesNothingElse) {
  on_grid(parameters(2, 2), [&](Trial& trial) {
    const std::string one = "layers.1.mlp.fc1.input";
    const GlobalBatch batch = trial.next_batch();
    trial.step(batch, 0), trial.step(batch, 0);
    const std::vector<float> known = tables(trial);
    const double loss = trial.step(batch, 0).loss;
    const Tensors before = trial.masters();
    set_tables(trial, known);
    plant(trial, one, {}, 1);
    const StepResult result = trial.step(batch, 0);
    EXPECT_EQ(result.calibrations, 1);
    EXPECT_NEAR(result.loss, loss, 1e-4 * loss);
    EXPECT_TRUE(trial.masters() == before);
    for (const QuantizedTensor& tensor : plan(trial).tensors) {
      // Step and calibration have seen the one, four steps the others (the first with its calibration;
      // weights at the start).
      const std::vector<float> entries = history(trial, tensor.name);
      EXPECT_EQ(std::count_if(entries.begin(), entries.end(), [](float entry) { return entry > 0; }),
                tensor.name == one ? 2 : 4)
          << tensor.name;
    }
  });
}

// Weights and activations that start small and grow: the largest amax of the window follows them, the scale
// of the first step does not. Measured over the last of 40 steps: 2.19 nats and 15 saturated elements,
// frozen 2.62 nats and 3 million.
TEST_F(Fp8Calibration, AScaleThatIsFrozenGetsWorse) {
  struct Outcome {
    double loss = 0;
    std::uint64_t saturated = 0;
  };
  const auto run = [&](const char* algorithm) {
    Outcome outcome;
    on_grid(parameters(1, 1,
                       {"batch.micro=16", "model.init_std=0.002", "optimizer.learning_rate=1e-2",
                        text("precision.amax_algorithm=", algorithm)}),
            [&](Trial& trial) {
              for (int step = 1; step <= 40; ++step) {
                const double loss = trial.step().loss;
                if (step <= 30) continue;
                outcome.loss += loss / 10;
                outcome.saturated += total(trial.session().precision_records()).saturated;
              }
            });
    return outcome;
  };
  const Outcome largest = run("max"), newest = run("most_recent"), frozen = run("frozen");
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank > 0) return;
  EXPECT_NEAR(newest.loss, largest.loss, 0.1);
  EXPECT_GT(frozen.loss, largest.loss + 0.2);
  EXPECT_LT(largest.saturated, 1000u);
  EXPECT_LT(newest.saturated, 1000u);
  EXPECT_GT(frozen.saturated, 1000000u);
}

}  // namespace

}  // namespace octachoron::parity
