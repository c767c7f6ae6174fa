// The bytes that a training step makes of its operands, and what it counts.
#include <cmath>

#include "core/model/parameter_buffers.h"
#include "tests/parallel/fp8_fixture.h"

namespace octachoron::parity {

namespace {

class Fp8Cast : public Fp8Test {
 protected:
  static const PrecisionRecord record(Trial& trial, const std::string& tensor) {
    return trial.session().precision_records()[std::size_t(row(trial, tensor))];
  }

  // Of the gathered cast of a bucket; absent if it has none.
  static const std::uint8_t* cast_of(Trial& trial, int bucket) {
    const std::span<std::byte> bytes = buffer(trial, text("bucket.", bucket, ".cast"));
    return bytes.empty() ? nullptr : reinterpret_cast<const std::uint8_t*>(bytes.data());
  }

  // Calls check(element, byte, format, tensor) for all that this rank keeps the masters of.
  template <class Check>
  static std::int64_t for_each_cast(Trial& trial, Check check) {
    const ParameterSet& set = trial.session().programs().set;
    const int shard = trial.grid().place_in_group(trial.rank(), Axis::dp | Axis::cp);
    std::int64_t elements = 0;
    for (const ShardRange& range : shard_ranges(set, shard)) {
      const std::uint8_t* cast = cast_of(trial, range.bucket);
      if (cast == nullptr) continue;
      const auto* master =
          reinterpret_cast<const float*>(buffer(trial, ParameterBuffers::master_name(range.bucket)).data());
      const std::int64_t begin = set.shard_elements(set.buckets[range.bucket]) * shard;
      for (std::int64_t k = 0; k < range.flat_end - range.flat_begin; ++k, ++elements)
        check(master[range.shard_offset + k], cast[begin + range.shard_offset + k],
              set.buckets[range.bucket].cast, set.tensors[range.tensor].row);
    }
    return elements;
  }

  static constexpr int kQueryRows = 8 * 16;

  // Plants 120 and 300 in rows of a weight whose scale is that of 240. `copies` ranks keep the row of 300.
  static void expect_worked_example(Trial& trial, const std::string& name, int row_of_120, int row_of_300,
                                    int copies) {
    constexpr float kScale = 448.f / 240.f;
    trial.step();
    trial.set_master(name, row_of_120, 5, 120), trial.set_master(name, row_of_300, 30, 300);
    plant(trial, name, {240}, kScale);
    const int planted = row(trial, name);
    std::array<int, 2> found{};
    with_weights(trial, [&] {
      for_each_cast(trial, [&](float master, std::uint8_t byte, DType format, int row) {
        if (row != planted || (master != 120 && master != 300)) return;
        ++found[master == 300];
        EXPECT_EQ(decode_fp8(format, byte), master == 120 ? 224 : 448);
        EXPECT_EQ(decode_fp8(format, byte) / kScale, master == 120 ? 120 : 240);
      });
    });
    MPI_Allreduce(MPI_IN_PLACE, found.data(), 2, MPI_INT, MPI_SUM, trial.comm());
    EXPECT_EQ(found, (std::array<int, 2>{1, copies}));
    EXPECT_EQ(record(trial, name).saturated, 1u);
    EXPECT_EQ(record(trial, name).nonfinite, 0u);
  }
};

TEST_F(Fp8Cast, OfWeightsIsThatOfTheMasters) {  // A25
  for (const char* recipe : {"fp8-delayed", "fp8-current"})
    for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}, {4, 1}, {1, 4}})
      on_grid(parameters(
                  dp, tp,
                  {text("backend.precision=", recipe), "precision.head=fp8", "optimizer.learning_rate=0.3"}),
              [&, dp = dp, tp = tp](Trial& trial) {
                SCOPED_TRACE(text(recipe, " dp=", dp, " tp=", tp));
                for (int step = 0; step < 3; ++step) {
                  trial.step();
                  std::int64_t elements = 0, wrong = 0;
                  with_weights(trial, [&] {
                    elements =
                        for_each_cast(trial, [&](float master, std::uint8_t byte, DType format, int row) {
                          const volatile float scaled = master * trial.session().precision().scale(row);
                          wrong += encode_fp8(format, scaled) != byte;
                        });
                  });
                  EXPECT_EQ(wrong, 0) << "of " << elements << " after step " << step + 1;
                  MPI_Allreduce(MPI_IN_PLACE, &elements, 1, MPI_INT64_T, MPI_SUM, trial.comm());
                  // qkv, out, fc1 and fc2 of two layers, and the table of the head with its padding.
                  EXPECT_GE(elements, 2 * (3 * 128 * 32 + 32 * 128 + 2 * 128 * 32) + kVocab * 32);
                }
              });
}

// The same gathered bytes on all ranks that hold the same part.
TEST_F(Fp8Cast, OfWeightsIsTheSameOverData) {
  on_grid(parameters(4, 1), [&](Trial& trial) {
    trial.step();
    const ParameterSet& set = trial.session().programs().set;
    with_weights(trial, [&] {
      for (int b = 0; b < int(set.buckets.size()); ++b)
        if (const std::uint8_t* cast = cast_of(trial, b)) {
          EXPECT_TRUE(same_on_all(trial, cast, std::size_t(set.buckets[b].elements))) << set.buckets[b].name;
        }
    });
  });
}

// The worked example: amax 240, so the scale is 448/240; 120 becomes 224, which is exact; 300 becomes 560, is
// clipped to 448, reads back as 240 and is counted.
TEST_F(Fp8Cast, TheWorkedExampleInAWeight) {
  for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}, {1, 4}, {4, 1}})
    on_grid(parameters(dp, tp), [&, dp = dp, tp = tp](Trial& trial) {
      SCOPED_TRACE(text("dp=", dp, " tp=", tp));
      expect_worked_example(trial, "layers.0.mlp.fc1.weight", 3, 100, 1);
    });
}

// A key's row that two of four TP ranks keep is cast by both and counted once.
TEST_F(Fp8Cast, TheWorkedExampleInASharedKey) {
  for (const auto& [tp, copies] : {std::pair{1, 1}, {2, 1}, {4, 2}, {8, 4}})
    on_grid(parameters(1, tp, {"model.family=llama", "model.kv_heads=2"}),
            [&, tp = tp, copies = copies](Trial& trial) {
              SCOPED_TRACE(text("tp=", tp));
              expect_worked_example(trial, "layers.0.attention.qkv.weight", 3, kQueryRows + 17, copies);
            });
}

// The same in what goes into fc1, by a norm that gives every token the same row; the next scale follows the
// jump.
TEST_F(Fp8Cast, TheWorkedExampleInAnActivation) {
  const std::string name = "layers.0.mlp.fc1.input";
  for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}, {1, 4}})
    for (const std::string& sequence : sequence_parallel(tp))
      on_grid(
          parameters(dp, tp, {text("parallel.sequence_parallel=", sequence), "precision.amax_history=4"}),
          [&, dp = dp, tp = tp](Trial& trial) {
            SCOPED_TRACE(text("dp=", dp, " tp=", tp, " sp ", sequence));
            trial.step(trial.next_batch(), 0);
            for (int column = 0; column < 32; ++column) {
              trial.set_master("layers.0.norm2.weight", column, 0, 0);
              trial.set_master("layers.0.norm2.bias", column, 0, column == 7 ? 120 : column == 31 ? 300 : 0);
            }
            plant(trial, name, {240}, 448.f / 240.f);
            Executor& executor = trial.session().training();
            int rows = 0;
            executor.run_stepwise([&](const Issue& issue) {
              const auto cast = find_cast(*issue.operation);
              if (!cast || *cast->tensor != name) return;
              const View& bytes = cast->row;
              const auto* data = reinterpret_cast<const std::uint8_t*>(
                  executor.address(bytes, executor.program().schedule.calls[issue.call]));
              for (std::int64_t r = 0; r < bytes.rows; ++r, ++rows)
                for (int column = 0; column < 32; ++column)
                  EXPECT_EQ(decode_fp8(OCT_E4M3, data[r * bytes.pitch + column]), column == 7    ? 224
                                                                                  : column == 31 ? 448
                                                                                                 : 0);
            });
            EXPECT_EQ(rows, kGlobal / dp * kSequence / (sequence == "on" ? tp : 1));
            EXPECT_EQ(record(trial, name).saturated, std::uint64_t(kGlobal * kSequence));
            EXPECT_EQ(record(trial, name).amax, 300);
            EXPECT_EQ(history(trial, name), (std::vector<float>{300, 240, 0, 0}));
            EXPECT_EQ(scale(trial, name), 448.f / 300.f);
          });
}

}  // namespace

}  // namespace octachoron::parity
