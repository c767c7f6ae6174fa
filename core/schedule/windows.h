#pragma once
/// What may run beside a communication, from dependences alone: the timeline, `plan` and the drawing of a
/// layer all ask this.
#include <utility>
#include <vector>

#include "core/program/program.h"

namespace octachoron {

/// What an operation is to the accounting of a step (contract, section 4). Copies from and to the host are
/// neither computation nor communication; all else that is no communication computes.
enum class WorkKind : std::uint8_t { gemm, compute, communication, host_copy };
WorkKind work_kind(const StepProgram& program, const Operation& operation);
constexpr bool is_computation(WorkKind kind) {
  return kind == WorkKind::gemm || kind == WorkKind::compute;
}

/// The operations that are ordered neither before nor after one communication. Lanes are total orders, so
/// they are one range of each lane: places [first, last) of Expansion::lanes[lane].
struct OverlapWindow {
  int issue = -1;
  std::array<std::pair<int, int>, kMaxLanes> beside{};
  int consumer = -1;  ///< the first issue off its lane that computes or copies and follows it; -1: none does
};

/// O(lanes x log(operations of a lane)). \param clocks of happens_before()
OverlapWindow overlap_window(const StepProgram& program, const Expansion& expansion,
                             const std::vector<Clock>& clocks, int issue);

/// Issues of the window that compute, in program order. \param lane -1: of all lanes
std::vector<int> free_computation(const StepProgram& program, const Expansion& expansion,
                                  const OverlapWindow& window, int lane = -1);

/// Computation behind the consumer, in its segment and lane, that could as well stand before it: a wait too
/// early.
std::vector<int> movable_computation(const StepProgram& program, const Expansion& expansion,
                                     const OverlapWindow& window);

/// Lanes that run GEMMs: those whose waiting counts.
std::vector<int> gemm_lanes(const StepProgram& program);

/// "layers.3.mlp.fc1.wgrad" -> "layers.*.mlp.fc1.wgrad": what is alike in all layers.
std::string without_layer(const std::string& label);

}  // namespace octachoron
