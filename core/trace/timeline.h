#pragma once
/// The timeline of one step on one rank: an interval for each operation, the communication among them
/// corrected for peers that came late.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

#include "core/engine/executor.h"
#include "core/parallel/world.h"
#include "core/trace/intervals.h"

namespace octachoron {

/// When one rank started one communication; the key is equal at all ends of a message and names it within the
/// step.
struct CommunicationBegin {
  std::uint64_t key = 0;
  double begin_s = 0;
  bool operator<(const CommunicationBegin& other) const { return key < other.key; }
};
/// Of all ranks, each sorted by key.
using AllBegins = std::vector<std::vector<CommunicationBegin>>;

/// Of this rank, sorted by key. \param offset_s what its clock is ahead of the common one
std::vector<CommunicationBegin> communication_begins(const StepProgram& program, const Expansion& expansion,
                                                     std::span<const OperationRecord> records,
                                                     double offset_s);
/// Collective: programs of different ranks may differ.
AllBegins gather_begins(const World& world, const std::vector<CommunicationBegin>& mine);

/// What the network of the run can do, for the reasons.
struct NetworkFacts {
  bool concurrent = true;     ///< messages of different groups may travel at once
  bool shares_cores = false;  ///< transfers are driven by the cores that compute
  bool own_clocks = false;    ///< each rank's device has a clock of its own
};

struct Timeline {
  const StepProgram* program = nullptr;
  const Expansion* expansion = nullptr;
  ProcessGrid grid;
  int rank = 0;
  NetworkFacts network;
  double step_s = 0;                ///< length of the step on the host's clock
  double clock_error_s = 0;         ///< how far the clocks of ranks may be apart
  std::vector<Interval> intervals;  ///< one an issue, in program order
  std::function<OperationCost(const Issue&)> cost = {};  ///< empty: unknown

  const Operation& operation(const Interval& interval) const {
    return *expansion->issues[interval.issue].operation;
  }
  /// When its lane waited for an event; empty if it did not.
  Span stall(const Interval& interval) const {
    if (interval.waited_for < 0) return {};
    const double end_s = std::min(intervals[interval.waited_for].end_s, interval.entered_s);
    return {end_s - interval.stalled_s, end_s};
  }
};

/// Pure. \param timeline with all fields but `intervals`; program and expansion must outlive it \param
/// records one an
///   issue, in program order \param offset_s what the clock of the records is ahead of the common one
Timeline make_timeline(Timeline timeline, std::span<const OperationRecord> records, double offset_s,
                       const AllBegins& begins);

/// Axes of the group along which there is more than one rank.
AxisSet real_axes(const ProcessGrid& grid, const Peers& peers);

}  // namespace octachoron
