// Casts fused into the operations that make what they cast, against casts of their own: the same bits.
#include <gmock/gmock.h>

#include <bit>

#include "tests/parallel/fp8_fixture.h"

namespace octachoron::parity {

namespace {

struct Outcome {
  std::vector<double> loss, grad_norm;
  std::string state;          // masters and moments of this rank
  std::vector<float> tables;  // scales and histories
  std::vector<std::uint64_t> counted;
  double validation = 0;
  bool operator==(const Outcome&) const = default;
};

int fused(Trial& trial) {
  int count = 0;
  for (const Segment& segment : trial.session().programs().training.program.segments)
    for (const Operation& operation : segment.operations) count += !operation.cast.empty();
  return count;
}

class Fp8Fused : public Fp8Test {
 protected:
  Outcome outcome(const Parameters& parameters, Casts casts) const {
    Outcome run;
    on_first_ranks(MPI_COMM_WORLD, grid_of(parameters).size(), [&](MPI_Comm part) {
      Trial trial(parameters, part, casts);
      EXPECT_EQ(fused(trial) > 0, casts == Casts::fused);
      trial.poison();
      for (int step = 0; step < 3; ++step) {
        const StepResult result = trial.step();
        run.loss.push_back(result.loss), run.grad_norm.push_back(result.grad_norm);
        for (const PrecisionRecord& record : trial.session().precision_records()) {
          run.counted.insert(run.counted.end(), {record.saturated, record.flushed, record.nonfinite,
                                                 std::bit_cast<std::uint32_t>(float(record.amax))});
        }
      }
      run.validation = trial.validate(trial.next_batch());
      run.state = trial.state_bytes(), run.tables = tables(trial);
    });
    return run;
  }
};

TEST_F(Fp8Fused, ChangesNoBit) {
  const std::vector<std::vector<std::string>> models{{"precision.head=fp8"},
                                                     {"model.family=llama", "model.kv_heads=2"},
                                                     {"precision.exclude=layers.0.mlp.*"}};
  for (const auto& model : models)
    for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}, {1, 4}, {4, 1}}) {
      SCOPED_TRACE(text(model[0], " dp=", dp, " tp=", tp));
      const Parameters all = parameters(dp, tp, model);
      EXPECT_EQ(outcome(all, Casts::fused), outcome(all, Casts::apart));
    }
}

// Infinity is cast to the largest number, so nothing that is kept shows where it came from.
TEST_F(Fp8Fused, NamesWhereAnInfinityWasCast) {
  on_grid(parameters(1, 1), [&](Trial& trial) {
    trial.step();
    for (int column = 0; column < 32; ++column) trial.set_master("layers.1.norm2.weight", column, 0, 3e38);
    Origin origin;
    trial.checked_step(trial.next_batch(), 0, false, &origin);
    EXPECT_THAT(origin.what, testing::HasSubstr("'layers.1.norm2'"));
    EXPECT_THAT(origin.what, testing::HasSubstr("cast it to 'layers.1.mlp.fc1.input.e4m3'"));
  });
}

}  // namespace

}  // namespace octachoron::parity
