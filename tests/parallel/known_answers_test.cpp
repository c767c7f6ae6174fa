// Faults with an answer that can be computed, through the whole program.
#include "tests/parallel/grid_fixture.h"

namespace octachoron::parity {

namespace {

struct Outcome {
  StepResult result;
  Tensors gradients;
};

class KnownAnswers : public GridTest {
 protected:
  using MakeBatch = std::function<GlobalBatch(const GlobalBatch&)>;

  // One step at rate 0 on a batch made from the first one of the data.
  Outcome step(
      const Parameters& parameters,
      const MakeBatch& make = [](const GlobalBatch& batch) { return batch; }) const {
    Outcome outcome;
    on_grid(parameters, [&](Trial& trial) {
      const GlobalBatch batch = make(trial.next_batch());
      outcome.result = trial.step(batch, 0);
      outcome.gradients = trial.gradients();
      EXPECT_NEAR(trial.validate(batch), outcome.result.loss, 1e-13) << "validation must agree with training";
    });
    return outcome;
  }

  static void expect_equal(const Outcome& a, const Outcome& reference) {
    EXPECT_LE(relative(a.result.loss, reference.result.loss), 1e-13);
    EXPECT_LE(relative(a.result.grad_norm, reference.result.grad_norm), 1e-12);
    const Deviation worst = relative_deviation(a.gradients, reference.gradients);
    EXPECT_LE(worst.value, 1e-11) << worst.tensor;
  }

  static bool is_rank_0() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == 0;
  }
};

TEST_F(KnownAnswers, PaddedVocabularyDoesNotCount) {  // B03
  const TokenFileForTests data(MPI_COMM_WORLD, 5, kSequence * kGlobal + 1);
  for (const char* tied : {"on", "off"})
    for (const auto& [dp, tp] : {std::pair{1, 1}, {1, 2}, {2, 2}, {1, 4}}) {
      SCOPED_TRACE(text("dp=", dp, " tp=", tp, " tied ", tied));
      const Outcome outcome =
          step(parameters(dp, tp,
                          {"model.vocab=5", "model.init_std=0", "data.train=" + data.path(),
                           text("model.tie_embeddings=", tied)}));
      if (is_rank_0()) {
        EXPECT_NEAR(outcome.result.loss, std::log(5.0), 1e-14);
      }
    }
}

TEST_F(KnownAnswers, BiasesBehindARowSplitAreAddedOnce) {  // B05
  // The weights of the row-parallel layers are 0, so a block adds their biases 1, 2, 3, ... and nothing else.
  const auto outcome = [&](const Parameters& p) {
    Outcome outcome;
    on_grid(p, [&](Trial& trial) {
      for (const std::string layer : {"layers.0.", "layers.1."})
        for (const auto& [name, columns] : {std::pair{"attention.out", 16}, {"mlp.fc2", 32}})
          for (int row = 0; row < 16; ++row) {
            for (int column = 0; column < columns; ++column)
              trial.set_master(layer + name + ".weight", row, column, 0);
            trial.set_master(layer + name + ".bias", row, 0, row + 1);
          }
      outcome.result = trial.step(trial.next_batch(), 0);
      for (const auto& [name, gradient] : trial.gradients())
        if (name.ends_with("out.bias") || name.ends_with("fc2.bias")) outcome.gradients[name] = gradient;
    });
    return outcome;
  };
  const Outcome one = outcome(parameters(1, 1));
  for (const auto& [dp, tp] : {std::pair{1, 2}, {1, 4}, {2, 2}})
    for (const std::string& mode : sequence_parallel(tp)) {
      SCOPED_TRACE(text("dp=", dp, " tp=", tp, " sp ", mode));
      const Outcome many = outcome(parameters(dp, tp, {text("parallel.sequence_parallel=", mode)}));
      if (!is_rank_0()) continue;
      EXPECT_EQ(many.gradients.size(), 4u);
      expect_equal(many, one);
    }
}

TEST_F(KnownAnswers, TheNormCountsEachParameterOnce) {  // B10, B11
  const Outcome one = step(parameters(1, 1));
  if (is_rank_0()) {
    EXPECT_LE(relative(one.result.grad_norm, norm_of(one.gradients)), 1e-14);
  }
  for (const auto& [dp, tp] : {std::pair{1, 2}, {1, 4}, {2, 1}, {2, 2}, {4, 1}})
    for (const std::string& mode : sequence_parallel(tp)) {
      SCOPED_TRACE(text("dp=", dp, " tp=", tp, " sp ", mode));
      const Outcome many = step(parameters(dp, tp, {text("parallel.sequence_parallel=", mode)}));
      if (!is_rank_0()) continue;
      EXPECT_LE(relative(many.result.grad_norm, one.result.grad_norm), 1e-13);
      EXPECT_LE(relative(many.result.grad_norm, norm_of(many.gradients)), 1e-13);
    }
}

TEST_F(KnownAnswers, TheLossIsTheMeanOverValidTargets) {  // E01
  // Sequence s counts s targets: the first none at all, micro-batches and ranks unequally many.
  const MakeBatch unequal = [](const GlobalBatch& batch) {
    return with_targets(batch, kSequence, [](auto s, auto t) { return t < s; });
  };
  double sum = 0, targets = 0;  // from one sequence after another, on one rank
  on_grid(parameters(1, 1, {"batch.micro=8"}), [&](Trial& trial) {
    const GlobalBatch all = unequal(trial.next_batch());
    for (int s = 1; s < kGlobal; ++s) {
      const GlobalBatch alone = with_targets(all, kSequence, [&](auto other, auto) { return other == s; });
      sum += trial.validate(alone) * s;
      targets += s;
    }
  });
  const Outcome one = step(parameters(1, 1, {"batch.micro=8"}), unequal);
  if (is_rank_0()) {
    EXPECT_NEAR(one.result.loss, sum / targets, 1e-14);
  }
  for (const auto& [dp, tp] : {std::pair{1, 1}, {4, 1}, {2, 2}, {1, 4}})
    for (const int micro : {1, 2}) {
      SCOPED_TRACE(text("dp=", dp, " tp=", tp, " micro=", micro));
      const Outcome many = step(parameters(dp, tp, {text("batch.micro=", micro)}), unequal);
      if (is_rank_0()) expect_equal(many, one);
    }
}

TEST_F(KnownAnswers, AccumulationDividesOnce) {  // E02
  const auto accumulated = [&](int micro) {
    return step(parameters(1, 1, {"batch.global=4", text("batch.micro=", micro)}));
  };
  const Outcome whole = accumulated(4), halves = accumulated(2), single = accumulated(1);
  if (!is_rank_0()) return;
  expect_equal(halves, whole);
  expect_equal(single, whole);
}

TEST_F(KnownAnswers, GradientsAreAveragedOverDataParallelRanksOnly) {  // E03
  const auto alone = [](int s) {
    return [s](const GlobalBatch& batch) {
      return with_targets(batch, kSequence, [s](auto other, auto) { return other == s; });
    };
  };
  const Outcome a = step(parameters(1, 1, {"batch.global=2"}), alone(0)),
                b = step(parameters(1, 1, {"batch.global=2"}), alone(1));
  const Outcome both = step(parameters(2, 2, {"batch.global=2"}));
  if (!is_rank_0()) return;
  Tensors mean = a.gradients;
  for (auto& [name, tensor] : mean)
    for (std::size_t i = 0; i < tensor.values.size(); ++i)
      tensor.values[i] = (tensor.values[i] + b.gradients.at(name).values[i]) / 2;
  const Deviation worst = relative_deviation(both.gradients, mean);
  EXPECT_LE(worst.value, 1e-12) << worst.tensor;
}

TEST_F(KnownAnswers, SequenceParallelismChangesRoundingOnly) {  // B13
  for (const auto& [dp, tp] : {std::pair{1, 2}, {1, 4}, {2, 2}}) {
    SCOPED_TRACE(text("dp=", dp, " tp=", tp));
    const Outcome on = step(parameters(dp, tp, {"backend.precision=fp32", "parallel.sequence_parallel=on"}));
    const Outcome off =
        step(parameters(dp, tp, {"backend.precision=fp32", "parallel.sequence_parallel=off"}));
    if (!is_rank_0()) continue;
    EXPECT_LE(relative(on.result.loss, off.result.loss), 1e-6);
    EXPECT_LE(relative(on.result.grad_norm, off.result.grad_norm), 1e-6);
    const Deviation worst = relative_deviation(on.gradients, off.gradients);
    EXPECT_LE(worst.value, 5e-6) << worst.tensor;
  }
}

TEST_F(KnownAnswers, ClippedRunsAgree) {  // L05
  const auto clipped = [&](int dp, int tp) {
    Trajectory trajectory;
    on_first_ranks(MPI_COMM_WORLD, dp * tp, [&](MPI_Comm part) {
      trajectory = run(parameters(dp, tp, {"optimizer.clip=0.05"}), part, 10, {});
    });
    return trajectory;
  };
  const Trajectory one = clipped(1, 1);
  for (const auto& [dp, tp] : {std::pair{2, 2}, {4, 1}, {1, 4}}) {
    SCOPED_TRACE(text("dp=", dp, " tp=", tp));
    const Trajectory many = clipped(dp, tp);
    if (!is_rank_0()) continue;
    for (int s = 0; s < 10; ++s) {
      EXPECT_GT(many.grad_norm[s], 0.05)
          << "the clip must be active, and the norm be the one before clipping";
      EXPECT_LE(relative(many.loss[s], one.loss[s]), 1e-12);
      EXPECT_LE(relative(many.grad_norm[s], one.grad_norm[s]), 1e-10);
    }
  }
}

}  // namespace

}  // namespace octachoron::parity
