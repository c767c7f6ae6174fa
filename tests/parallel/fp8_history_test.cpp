// Amaxes, histories and scales: one of each a logical tensor and step, the same on all ranks, whatever a step
// does.
#include <cmath>

#include "core/model/parameter_buffers.h"
#include "tests/parallel/fp8_fixture.h"

namespace octachoron::parity {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class Fp8History : public Fp8Test {
 protected:
  // Histories of `after` are those of `before` with one more entry in front.
  static void expect_rolled_once(Trial& trial, const std::vector<std::vector<float>>& before,
                                 const std::vector<std::vector<float>>& after) {
    for (std::size_t row = 0; row < before.size(); ++row) {
      const std::vector<float> kept(before[row].begin(), before[row].end() - 1),
          old(after[row].begin() + 1, after[row].end());
      EXPECT_EQ(kept, old) << plan(trial).tensors[row].name;
      EXPECT_TRUE(std::isfinite(after[row][0])) << plan(trial).tensors[row].name;
    }
  }
  static std::vector<std::vector<float>> histories(Trial& trial) {
    std::vector<std::vector<float>> all;
    for (const QuantizedTensor& tensor : plan(trial).tensors) all.push_back(history(trial, tensor.name));
    return all;
  }

  // Of the last step, where they are finite, else 0.
  static std::vector<float> amaxes(Trial& trial) {
    std::vector<float> all;
    for (const PrecisionRecord& record : trial.session().precision_records())
      all.push_back(std::isfinite(record.amax) ? record.amax : 0);
    return all;
  }

  // The last sequence first.
  static GlobalBatch reversed(const GlobalBatch& batch) {
    GlobalBatch turned;
    for (int sequence = kGlobal - 1; sequence >= 0; --sequence)
      for (const auto& [from, to] : {std::pair{&batch.ids, &turned.ids}, {&batch.targets, &turned.targets}})
        to->insert(to->end(), from->begin() + sequence * kSequence,
                   from->begin() + (sequence + 1) * kSequence);
    return turned;
  }
};

TEST_F(Fp8History, TablesAreTheSameOnAllRanksAfterEveryStep) {  // A13
  for (const char* recipe : {"fp8-delayed", "fp8-current"})
    for (const auto& [dp, tp] : {std::pair{2, 1}, {1, 2}, {2, 2}, {2, 4}, {4, 2}, {8, 1}, {1, 8}})
      for (const std::string& sequence : sequence_parallel(tp)) {
        SCOPED_TRACE(text(recipe, " dp=", dp, " tp=", tp, " sp ", sequence));
        on_grid(
            parameters(dp, tp,
                       {text("backend.precision=", recipe), text("parallel.sequence_parallel=", sequence)}),
            [](Trial& trial) {
              for (int step = 0; step < 3; ++step) {
                EXPECT_TRUE(trial.step().finite);
                const std::vector<float> all = tables(trial);
                EXPECT_TRUE(same_on_all(trial, all.data(), all.size() * sizeof(float)))
                    << "after step " << step + 1;
                std::vector<float> seen;
                for (const PrecisionRecord& record : trial.session().precision_records()) {
                  seen.insert(seen.end(), {record.amax, float(record.saturated), float(record.flushed)});
                  EXPECT_GT(record.amax, 0);
                }
                EXPECT_TRUE(same_on_all(trial, seen.data(), seen.size() * sizeof(float)));
              }
              EXPECT_EQ(trial.unequal_copies(), std::vector<std::string>{});
            });
      }
}

// One scale a step: what is recorded is the largest of all micro-batches, in whatever pieces and order they
// come.
TEST_F(Fp8History, DoesNotDependOnTheMicroBatches) {  // A04
  std::vector<float> start, expected;
  on_grid(parameters(1, 1, {"batch.micro=16", "precision.amax_algorithm=most_recent"}), [&](Trial& trial) {
    trial.step();
    start = tables(trial);
    trial.session().initialise();
    set_tables(trial, start);
    trial.step(trial.next_batch(), 0);
    expected = tables(trial);
  });
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank > 0) return;
  for (const int micro : {16, 8, 4, 1})
    for (const bool turned : {false, true}) {
      SCOPED_TRACE(text("micro-batches of ", micro, turned ? ", reversed" : ""));
      Trial trial(parameters(1, 1, {text("batch.micro=", micro), "precision.amax_algorithm=most_recent"}),
                  MPI_COMM_SELF);
      trial.step();  // so that the batch is the same
      trial.session().initialise();
      set_tables(trial, start);
      const GlobalBatch batch = trial.next_batch();
      trial.step(turned ? reversed(batch) : batch, 0);
      EXPECT_EQ(tables(trial), expected);
    }
}

TEST_F(Fp8History, RollsOnceAStep) {  // A05
  for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}})
    for (const int micro : {1, 2, 4})
      on_grid(parameters(dp, tp, {text("batch.micro=", micro), "precision.amax_history=3"}),
              [&, dp = dp](Trial& trial) {
                SCOPED_TRACE(text("dp=", dp, ", micro-batches of ", micro));
                if (micro * kSequence / trial.parameters().grid.tp % 16 != 0) return;
                trial.step();
                for (int step = 0; step < 3; ++step) {
                  const auto before = histories(trial);
                  trial.step();
                  const auto after = histories(trial);
                  expect_rolled_once(trial, before, after);
                  trial.validate(trial.next_batch());
                  EXPECT_EQ(histories(trial), after) << "a validation is recorded";
                }
              });
}

TEST_F(Fp8History, AStepThatIsCheckedLeavesTheSame) {
  on_grid(parameters(2, 2), [&](Trial& trial) {
    std::vector<float> expected;
    std::string state;
    for (const bool checked : {false, true}) {
      trial.session().initialise();
      for (int step = 0; step < 3; ++step) {
        const GlobalBatch batch = trial.next_batch();
        const StepResult result = checked ? trial.checked_step(batch, 1e-3) : trial.step(batch, 1e-3);
        EXPECT_EQ(result.calibrations, step == 0);
      }
      if (!checked) expected = tables(trial), state = trial.state_bytes();
    }
    EXPECT_EQ(tables(trial), expected);
    EXPECT_TRUE(trial.state_bytes() == state);
  });
}

// A NaN in one gradient, behind the products: everything that was cast is finite and recorded, once, and
// nothing is updated.
TEST_F(Fp8History, OfAStepThatIsSkippedRollsOnce) {  // A27
  for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}, {1, 4}})
    on_grid(parameters(dp, tp), [&, dp = dp, tp = tp](Trial& trial) {
      SCOPED_TRACE(text("dp=", dp, " tp=", tp, " rank ", trial.rank()));
      trial.step(), trial.step();
      const auto before = histories(trial);
      const Tensors masters_before = trial.masters();
      const auto moments = [&] { return assemble(trial.session().state(), "/optimizer/", trial.comm()); };
      const Tensors moments_before = moments();
      Executor& executor = trial.session().training();
      const StepProgram& program = executor.program();
      const ParameterSet& set = trial.session().programs().set;
      int bucket = 0;  // of weights that were cast
      while (set.buckets[bucket].cast == OCT_DTYPES) ++bucket;
      const std::span<std::byte> shard = buffer(trial, ParameterBuffers::gradient_shard_name(set, bucket));
      bool planted = false;
      executor.run_stepwise([&](const Issue& issue) {
        const Issue* next = &issue + 1;  // plants before the first operation that agrees on the norm
        if (planted || next == &*executor.expansion().issues.end()) return;
        if (program.segments[program.schedule.calls[next->call].segment].name != "agree") return;
        planted = true;
        if (trial.rank() == trial.size() - 1) *reinterpret_cast<float*>(shard.data()) = float(kNan);
      });
      EXPECT_TRUE(planted);
      EXPECT_EQ(
          reinterpret_cast<const double*>(executor.address(executor.find(StepBuffers::result).value()))[2],
          0);
      EXPECT_TRUE(trial.masters() == masters_before);
      EXPECT_TRUE(moments() == moments_before);
      expect_rolled_once(trial, before, histories(trial));
      const std::vector<float> all = tables(trial);
      EXPECT_TRUE(same_on_all(trial, all.data(), all.size() * sizeof(float)));
      EXPECT_TRUE(trial.step().finite);
    });
}

// A NaN in a weight of layer 1: what comes before it is recorded, what it reaches keeps its history and
// scale.
TEST_F(Fp8History, TakesNoNanAndIsNotRolledByARepeatedStep) {  // A27
  for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}})
    on_grid(parameters(dp, tp, {"precision.amax_algorithm=most_recent"}), [&, dp = dp,
                                                                           tp = tp](Trial& trial) {
      SCOPED_TRACE(text("dp=", dp, " tp=", tp));
      trial.step(), trial.step();
      const auto before = histories(trial);
      const auto parts = masters(trial, "layers.1.mlp.fc1.weight");
      const bool last = trial.rank() == trial.size() - 1;
      if (last) ensure(!parts.empty(), "the last rank keeps nothing of fc1");
      const float kept = last ? std::exchange(parts[0][0], float(kNan)) : 0;
      const GlobalBatch batch = trial.next_batch();
      EXPECT_FALSE(trial.step(batch, 1e-3).finite);
      const auto after = histories(trial);
      int rolled = 0, left = 0;
      for (std::size_t row = 0; row < before.size(); ++row) {
        for (const float entry : after[row])
          EXPECT_TRUE(std::isfinite(entry)) << plan(trial).tensors[row].name;
        const bool same = before[row] == after[row];
        ++(same ? left : rolled);
        const std::string& name = plan(trial).tensors[row].name;
        if (name == "layers.1.mlp.fc1.weight" || name == "layers.1.mlp.fc2.input" ||
            name.ends_with("grad_output")) {
          EXPECT_TRUE(same) << name;
        } else {
          EXPECT_EQ(std::vector<float>(before[row].begin(), before[row].end() - 1),
                    std::vector<float>(after[row].begin() + 1, after[row].end()))
              << name;
        }
      }
      EXPECT_EQ(rolled + left, 24);
      EXPECT_EQ(left, 8 + 2);
      EXPECT_GT(
          trial.session().precision_records()[std::size_t(row(trial, "layers.1.mlp.fc1.weight"))].nonfinite,
          0u);
      const std::vector<float> all = tables(trial), seen = amaxes(trial);
      EXPECT_FALSE(trial.checked_step(batch, 1e-3, true).finite);
      EXPECT_EQ(tables(trial), all) << "rolled by a repeated step";
      EXPECT_EQ(amaxes(trial), seen) << "repeated with other scales";
      if (last) parts[0][0] = kept;
      EXPECT_TRUE(trial.step().finite);
    });
}

}  // namespace

}  // namespace octachoron::parity
