#pragma once
/// The run: data, steps, validation, metrics, checkpoints, signals, resume.
#include <atomic>

#include "core/data/token_data.h"
#include "core/train/metrics.h"
#include "core/train/session.h"

namespace octachoron {

/// What app/ hands to a run beside its parameters.
struct RunOptions {
  bool check = false;                             ///< operation by operation with finite checks
  const std::atomic<int>* stop_signal = nullptr;  ///< number of the signal that asked for a stop; 0: none
  double agreement_limit_s = 600;                 ///< for ranks to agree at a step boundary
};

/// Collective over `world`. \return done, stopped, diverged, or data where the last save failed
/// \throws Error for all else, alike on all ranks where it concerns all
ExitStatus train(const Parameters& parameters, const World& world, const RunOptions& options);

}  // namespace octachoron
