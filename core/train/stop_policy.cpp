#include "core/train/stop_policy.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <limits>

namespace octachoron {

namespace {

constexpr std::uint64_t kStop = 1, kSave = 2;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// Slurm tells a job when it will be ended (SLURM_JOB_END_TIME, seconds since 1970); elsewhere there is no
// limit.
double slurm_seconds_left() {
  const char* end = std::getenv("SLURM_JOB_END_TIME");
  return end ? std::max(1.0, std::strtod(end, nullptr) - double(std::time(nullptr))) : 0.0;
}

}  // namespace

StopPolicy::StopPolicy(const Parameters& parameters, const World& world, const std::atomic<int>* stop_signal,
                       double limit_s)
    : parameters_(parameters),
      world_(world),
      stop_signal_(stop_signal),
      limit_s_(limit_s),
      start_(Clock::now()),
      last_save_(start_),
      wall_limit_s_(parameters.run.wall_limit_s > 0 ? double(parameters.run.wall_limit_s)
                                                    : slurm_seconds_left()) {}

double StopPolicy::seconds_left() const {
  return wall_limit_s_ > 0 ? wall_limit_s_ - since(start_) : std::numeric_limits<double>::infinity();
}

bool StopPolicy::wants_stop() const {
  const bool asked = stop_signal_ && stop_signal_->load(std::memory_order_relaxed) != 0;
  return asked || seconds_left() < 2 * (longest_step_s_ + last_save_s_);
}

std::uint64_t StopPolicy::own_flags(std::int64_t step) const {
  std::uint64_t flags = wants_stop() ? kStop : std::uint64_t{0};
  const CheckpointParameters& checkpoint = parameters_.checkpoint;
  if (checkpoint.every > 0 && step % checkpoint.every == 0) flags |= kSave;
  if (checkpoint.every_minutes > 0 && world_.rank() == 0 &&
      since(last_save_) >= 60.0 * double(checkpoint.every_minutes))
    flags |= kSave;  // one clock decides
  return flags;
}

Decision StopPolicy::decide(std::int64_t step) {
  const std::uint64_t flags = world_.combine_flags(own_flags(step), limit_s_);
  return {.save = (flags & kSave) != 0, .stop = (flags & kStop) != 0};
}

bool StopPolicy::stop_asked() {
  return world_.combine_flags(wants_stop() ? kStop : std::uint64_t{0}, limit_s_) != 0;
}

void StopPolicy::note_step(double seconds) {
  longest_step_s_ = std::max(longest_step_s_, seconds);
}

void StopPolicy::note_save(double seconds) {
  last_save_s_ = seconds;
  last_save_ = Clock::now();
}

}  // namespace octachoron
