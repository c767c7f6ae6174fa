#pragma once
/// Clocks of different nodes and devices, brought together without trusting any of them.
#include <functional>
#include <vector>

#include "core/parallel/world.h"

namespace octachoron {

/// What one clock is ahead of another: the true value is within `error_s` of `offset_s`.
struct ClockOffset {
  double offset_s = 0, error_s = 0;
};

/// From rounds in which everybody reads its clock, meets all others, and reads it again: what one read before
/// a meeting, the other read after it, and the other way round. Each round bounds the offset from both sides;
/// the tightest bounds are kept. \pre all four have one entry a round
ClockOffset offset_between(const std::vector<double>& mine_before, const std::vector<double>& mine_after,
                           const std::vector<double>& other_before, const std::vector<double>& other_after);

/// Of this rank's clock against rank 0's. Collective. \param hosts one name a rank \param read the clock
/// \param is_host_clock it is that of the node: its ranks share it and an offset, those of rank 0's node have none, and
/// nothing is measured where there is one node. Else each rank has one of its own
ClockOffset clock_offset(const World& world, const std::vector<std::string>& hosts, bool is_host_clock,
                         const std::function<double()>& read);

}  // namespace octachoron
