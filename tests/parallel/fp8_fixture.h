#pragma once
/// What the tests of FP8 steps share: a model whose sizes FP8 takes on up to eight ranks, and the tables of a
/// session.
#include <cstring>
#include <span>

#include "core/model/quantizer.h"
#include "core/numerics/formats.h"
#include "core/numerics/random.h"
#include "tests/parallel/grid_fixture.h"

namespace octachoron::parity {

class Fp8Test : public GridTest {
 protected:
  static constexpr int kVocab = 61, kSequence = 32, kGlobal = 16;

  /// Delayed scaling, micro-batches of at most four sequences, unless overrides say otherwise.
  Parameters parameters(int dp, int tp, std::vector<std::string> overrides = {}) const {
    std::vector<std::string> chosen{"backend.precision=fp8-delayed",
                                    text("batch.micro=", std::min(4, kGlobal / dp))};
    overrides.push_back(text("grid.dp=", dp));
    overrides.push_back(text("grid.tp=", tp));
    for (const std::string& override : overrides) {
      const std::string key = override.substr(0, override.find('=') + 1);
      std::erase_if(chosen, [&](const std::string& other) { return other.starts_with(key); });
      chosen.push_back(override);
    }
    return parameters_of(
        text("[run]\nsteps = 40\nseed = 3\n[model]\nlayers = 2\nhidden = 32\nheads = 8\nhead_dim = 16\n",
             "ffn = 128\nvocab = ", kVocab, "\nsequence = ", kSequence, "\n[batch]\nglobal = ", kGlobal,
             "\n[optimizer]\nlearning_rate = 3e-3\ndecay = constant\n[engine]\nthreads = 1\n[data]\n",
             "format = text\ntrain = ", data_.path(), "\n"),
        chosen);
  }

  static const QuantizationPlan& plan(Trial& trial) { return trial.session().programs().quantization; }
  static int row(Trial& trial, const std::string& tensor) {
    for (int row = 0; row < int(plan(trial).tensors.size()); ++row)
      if (plan(trial).tensors[row].name == tensor) return row;
    fail(ExitStatus::internal, "no quantised tensor '", tensor, "'");
  }
  static std::vector<float> history(Trial& trial, const std::string& tensor) {
    const auto entries = trial.session().precision().history(row(trial, tensor));
    return {entries.begin(), entries.end()};
  }
  static float scale(Trial& trial, const std::string& tensor) {
    return trial.session().precision().scale(row(trial, tensor));
  }

  /// The bytes of a buffer of the step on this rank; empty if it has none of the name.
  static std::span<std::byte> buffer(Trial& trial, const std::string& name) {
    const Executor& executor = trial.session().training();
    const int number = executor.program().find_buffer(name);
    if (number < 0) return {};
    const std::int64_t bytes = executor.program().buffers[number].bytes;
    return {executor.address(View{number, 0, OCT_U8, 1, bytes, bytes}), std::size_t(bytes)};
  }
  /// Of this rank, in memory: the newest entry first.
  static void plant(Trial& trial, const std::string& tensor, const std::vector<float>& newest, float scale) {
    const auto at = [&](const char* table) {
      const std::span<std::byte> all = buffer(trial, table);
      return reinterpret_cast<float*>(
          &all[all.size() / plan(trial).tensors.size() * std::size_t(row(trial, tensor))]);
    };
    float* entries = at(PrecisionBuffers::history);
    std::fill_n(entries, history(trial, tensor).size(), 0.f);
    std::copy(newest.begin(), newest.end(), entries);
    *at(PrecisionBuffers::scale) = scale;
  }
  /// All scales and histories of this rank.
  static std::vector<float> tables(Trial& trial) { return trial.session().precision().copy(); }
  static void set_tables(Trial& trial, const std::vector<float>& all) {
    const float* from = all.data();
    for (const char* table : {PrecisionBuffers::scale, PrecisionBuffers::history}) {
      const std::span<std::byte> bytes = buffer(trial, table);
      std::memcpy(bytes.data(), from, bytes.size());
      from += bytes.size() / sizeof(float);
    }
    ensure(from == all.data() + all.size(), "tables of another size");
  }
  /// Whether all ranks of the trial hold the same bytes.
  static bool same_on_all(Trial& trial, const void* data, std::size_t bytes) {
    std::uint64_t low = hash64({static_cast<const char*>(data), bytes}), high = low;
    MPI_Allreduce(MPI_IN_PLACE, &low, 1, MPI_UINT64_T, MPI_MIN, trial.comm());
    MPI_Allreduce(MPI_IN_PLACE, &high, 1, MPI_UINT64_T, MPI_MAX, trial.comm());
    return low == high;
  }

  /// The elements of a master that this rank keeps.
  static std::vector<std::span<float>> masters(Trial& trial, const std::string& tensor) {
    std::vector<std::span<float>> parts;
    for (const CheckpointTensor& part : trial.session().state())
      if (part.path == "/master/" + tensor)
        for (const OwnedRange& range : part.ranges)
          parts.push_back({static_cast<float*>(range.data), std::size_t(range.flat_end - range.flat_begin)});
    return parts;
  }

  /// Calls inspect() when the weights of the step are cast and gathered, and nothing else has been computed;
  /// runs the step to its end.
  static void with_weights(Trial& trial, const std::function<void()>& inspect) {
    Executor& executor = trial.session().training();
    const StepProgram& program = executor.program();
    std::string before;
    executor.run_stepwise([&](const Issue& issue) {
      const std::string& segment = program.segments[program.schedule.calls[issue.call].segment].name;
      if (before == "gather weights" && segment != before) inspect();
      before = segment;
    });
  }

 private:
  TokenFileForTests data_{MPI_COMM_WORLD, kVocab, kSequence* kGlobal * 40 + 1};
};

}  // namespace octachoron::parity
