#include "core/train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace octachoron {

double learning_rate(const OptimizerParameters& optimizer, std::int64_t step) {
  const double peak = optimizer.learning_rate, minimum = optimizer.min_learning_rate;
  if (step < optimizer.warmup) return peak * double(step) / double(optimizer.warmup);
  // At the end of the warm-up the rate is the peak, also where no step is left for the decay.
  if (step == optimizer.warmup || optimizer.decay == Decay::constant) return peak;
  if (step >= optimizer.decay_steps) return minimum;
  const double progress = double(step - optimizer.warmup) / double(optimizer.decay_steps - optimizer.warmup);
  if (optimizer.decay == Decay::linear) return peak + (minimum - peak) * progress;
  return minimum + (peak - minimum) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace octachoron
