#include "core/schedule/windows.h"

#include <algorithm>

#include "core/schedule/overlap.h"

namespace octachoron {

WorkKind work_kind(const StepProgram& program, const Operation& operation) {
  if (is_communication(operation.op)) return WorkKind::communication;
  if (operation.op == OCT_GEMM) return WorkKind::gemm;
  const auto on_host = [&](const Operand& operand) {
    return !operand.view.absent() && program.buffers[operand.view.buffer].memory == MemoryClass::host;
  };
  const bool host = std::any_of(operation.operands.begin(), operation.operands.end(), on_host);
  return operation.op == OCT_COPY && host ? WorkKind::host_copy : WorkKind::compute;
}

OverlapWindow overlap_window(const StepProgram& program, const Expansion& expansion,
                             const std::vector<Clock>& clocks, int issue) {
  OverlapWindow window;
  window.issue = issue;
  const Issue& communication = expansion.issues[issue];
  const int own = communication.lane();
  for (int lane = 0; lane < int(program.lanes.size()); ++lane) {
    if (lane == own) continue;
    const std::vector<int>& queue = expansion.lanes[lane];
    const auto before = [&](int other, int sequence) { return clocks[other][own] < sequence; };
    const auto follower = std::lower_bound(queue.begin(), queue.end(), communication.sequence, before);
    window.beside[lane] = {clocks[issue][lane], int(follower - queue.begin())};
    if (follower == queue.end()) continue;
    // A lane of messages has no consumer but what computes with them.
    if (work_kind(program, *expansion.issues[*follower].operation) == WorkKind::communication) continue;
    if (window.consumer < 0 || *follower < window.consumer) window.consumer = *follower;
  }
  return window;
}

std::vector<int> free_computation(const StepProgram& program, const Expansion& expansion,
                                  const OverlapWindow& window, int lane) {
  std::vector<int> found;
  for (int other = 0; other < int(program.lanes.size()); ++other) {
    if (lane >= 0 && other != lane) continue;
    for (int place = window.beside[other].first; place < window.beside[other].second; ++place) {
      const int issue = expansion.lanes[other][place];
      if (is_computation(work_kind(program, *expansion.issues[issue].operation))) found.push_back(issue);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<int> movable_computation(const StepProgram& program, const Expansion& expansion,
                                     const OverlapWindow& window) {
  std::vector<int> found;
  if (window.consumer < 0) return found;
  const Issue& consumer = expansion.issues[window.consumer];
  const int end = expansion.first_of_call[consumer.call] +
                  int(program.segments[program.schedule.calls[consumer.call].segment].operations.size());
  // What stays behind the consumer: an operation may pass only what it has nothing to do with.
  std::vector<const Operation*> kept{expansion.issues[window.issue].operation, consumer.operation};
  for (int issue = window.consumer + 1; issue < end; ++issue) {
    const Operation& operation = *expansion.issues[issue].operation;
    const auto free_of = [&](const Operation* other) { return commute(operation, *other); };
    if (operation.lane == consumer.lane() && is_computation(work_kind(program, operation)) &&
        std::all_of(kept.begin(), kept.end(), free_of))
      found.push_back(issue);
    else
      kept.push_back(&operation);
  }
  return found;
}

std::vector<int> gemm_lanes(const StepProgram& program) {
  std::vector<int> lanes;
  for (int lane = 0; lane < int(program.lanes.size()); ++lane) {
    const auto multiplies = [&](const Operation& operation) {
      return operation.lane == lane && operation.op == OCT_GEMM;
    };
    if (std::any_of(program.segments.begin(), program.segments.end(), [&](const Segment& segment) {
          return std::any_of(segment.operations.begin(), segment.operations.end(), multiplies);
        }))
      lanes.push_back(lane);
  }
  return lanes;
}

std::string without_layer(const std::string& label) {
  const std::string prefix = "layers.";
  if (!label.starts_with(prefix)) return label;
  const std::size_t end = label.find('.', prefix.size());
  return end == std::string::npos ? label : prefix + "*" + label.substr(end);
}

}  // namespace octachoron
