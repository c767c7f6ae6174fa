#pragma once
#include <cstdint>

#include "core/config/parameters.h"

namespace octachoron {

/// Rate of a step (from 1): lr * s / warmup, then cosine or linear to the minimum at decay_steps
/// (contract 1.13).
double learning_rate(const OptimizerParameters& optimizer, std::int64_t step);

}  // namespace octachoron
