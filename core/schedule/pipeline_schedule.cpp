#include "core/schedule/pipeline_schedule.h"

#include <algorithm>

namespace octachoron {

int in_flight(int stage, int stages, int micro_batches) {
  return std::min(stages - stage, micro_batches);
}

PipelineSchedule one_forward_one_backward(int stage, int stages, int micro_batches) {
  PipelineSchedule schedule;
  const int lead = in_flight(stage, stages, micro_batches);
  for (int m = 0; m < micro_batches + lead - 1; ++m) {
    if (m < micro_batches) schedule.push_back({true, m});
    if (m >= lead - 1) schedule.push_back({false, m - (lead - 1)});
  }
  return schedule;
}

}  // namespace octachoron
