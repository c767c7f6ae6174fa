#pragma once
/// Pipeline schedules as pure data: which micro-batch of a stage goes forward or backward next.
#include <vector>

namespace octachoron {

struct Action {
  bool forward = true;
  int micro_batch = 0;
  bool operator==(const Action&) const = default;
};
using PipelineSchedule = std::vector<Action>;

/// Micro-batches whose activations a stage holds at once under 1F1B.
int in_flight(int stage, int stages, int micro_batches);

/// 1F1B (PipeDream-Flush, Narayanan et al. 2021). With one stage: forward, backward, forward, backward...
PipelineSchedule one_forward_one_backward(int stage, int stages, int micro_batches);

}  // namespace octachoron
