#pragma once
/// When to save and when to stop: signals, the clock, the step count; agreed by all ranks at each step
/// boundary.
#include <atomic>
#include <chrono>

#include "core/config/parameters.h"
#include "core/parallel/world.h"

namespace octachoron {

struct Decision {
  bool save = false;  ///< a periodic checkpoint is due
  bool stop = false;  ///< checkpoint and exit 75
};

class StopPolicy {
 public:
  StopPolicy(const Parameters& parameters, const World& world, const std::atomic<int>* stop_signal,
             double limit_s);

  /// Collective, at a step boundary.
  Decision decide(std::int64_t step);
  /// Collective, between validation batches: whether a signal or the clock asks for a stop.
  bool stop_asked();
  void note_step(double seconds);
  void note_save(double seconds);

 private:
  bool wants_stop() const;
  std::uint64_t own_flags(std::int64_t step) const;
  double seconds_left() const;

  const Parameters& parameters_;
  const World& world_;
  const std::atomic<int>* stop_signal_;
  double limit_s_;
  std::chrono::steady_clock::time_point start_, last_save_;
  double wall_limit_s_ = 0;  // from start_; 0: none
  double longest_step_s_ = 0, last_save_s_ = 0;
};

}  // namespace octachoron
