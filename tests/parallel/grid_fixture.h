#pragma once
/// A small model on grids of up to four ranks: what the tests of single faults share.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/text.h"
#include "tests/parallel/harness.h"

namespace octachoron::parity {

class GridTest : public testing::Test {
 protected:
  static constexpr int kVocab = 11, kSequence = 8, kGlobal = 8;

  /// FP64 unless an override says otherwise.
  Parameters parameters(int dp, int tp, std::vector<std::string> overrides = {}) const {
    const std::string file = text(
        "[run]\nsteps = 20\nseed = 3\n[backend]\nprecision = fp64\n[model]\nlayers = 2\nhidden = 16\nheads = "
        "4\n",
        "ffn = 32\nvocab = ", kVocab, "\nsequence = ", kSequence,
        "\ninit_std = 0.3\n[batch]\nglobal = ", kGlobal,
        "\n[optimizer]\nlearning_rate = 3e-3\ndecay = constant\n[engine]\nthreads = 1\n[data]\nformat = "
        "text\n",
        "train = ", data_.path(), "\n");
    overrides.push_back(text("grid.dp=", dp));
    overrides.push_back(text("grid.tp=", tp));
    return parameters_of(file, overrides);
  }

  /// Collective: the action with a session of these parameters, on as many ranks as they need.
  void on_grid(const Parameters& parameters, const std::function<void(Trial&)>& action) const {
    on_first_ranks(MPI_COMM_WORLD, grid_of(parameters).size(), [&](MPI_Comm part) {
      Trial trial(parameters, part);
      action(trial);
    });
  }

  /// Values of parallel.sequence_parallel that differ on this grid.
  static std::vector<std::string> sequence_parallel(int tp) {
    return tp > 1 ? std::vector<std::string>{"on", "off"} : std::vector<std::string>{"on"};
  }

  static double relative(double value, double reference) {
    return std::abs(value - reference) / std::abs(reference);
  }

 private:
  TokenFileForTests data_{MPI_COMM_WORLD, kVocab, kSequence* kGlobal * 20 + 1};
};

/// Only targets for which keep(sequence, position) holds count.
template <class Keep>
GlobalBatch with_targets(GlobalBatch batch, std::int64_t length, Keep keep) {
  for (std::int64_t i = 0; i < std::int64_t(batch.targets.size()); ++i)
    if (!keep(i / length, i % length)) batch.targets[i] = kIgnoredTarget;
  return batch;
}

}  // namespace octachoron::parity
