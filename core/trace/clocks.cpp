#include "core/trace/clocks.h"

#include <algorithm>
#include <limits>

namespace octachoron {

namespace {

constexpr int kRounds = 8;

}  // namespace

ClockOffset offset_between(const std::vector<double>& mine_before, const std::vector<double>& mine_after,
                           const std::vector<double>& other_before, const std::vector<double>& other_after) {
  double least = std::numeric_limits<double>::lowest(), most = std::numeric_limits<double>::max();
  for (std::size_t round = 0; round < mine_before.size(); ++round) {
    least = std::max(least, mine_before[round] - other_after[round]);
    most = std::min(most, mine_after[round] - other_before[round]);
  }
  return {(least + most) / 2, (most - least) / 2};
}

ClockOffset clock_offset(const World& world, const std::vector<std::string>& hosts,
                         bool is_host_clock, const std::function<double()>& read) {
  if (world.size() == 1) return {};
  if (is_host_clock && std::count(hosts.begin(), hosts.end(), hosts.front()) == std::ptrdiff_t(hosts.size())) return {};
  std::vector<double> mine;  // before and after, round by round
  for (int round = 0; round < kRounds; ++round) {
    mine.push_back(read());
    world.barrier();
    mine.push_back(read());
  }
  std::vector<double> all(mine.size() * std::size_t(world.size()));
  world.allgather(mine.data(), all.data(), mine.size() * sizeof(double));
  const auto readings = [&](std::size_t rank, int which) {
    std::vector<double> result;
    for (int round = 0; round < kRounds; ++round)
      result.push_back(all[rank * mine.size() + std::size_t(2 * round + which)]);
    return result;
  };
  // One rank speaks for its node, so that the clock they share stays one; of a device it speaks for itself.
  const auto mine_or_nodes = is_host_clock ? std::find(hosts.begin(), hosts.end(), hosts[std::size_t(world.rank())])
                                           : hosts.begin() + world.rank();
  const auto first = std::size_t(mine_or_nodes - hosts.begin());
  if (first == 0) return {};
  return offset_between(readings(first, 0), readings(first, 1), readings(0, 0), readings(0, 1));
}

}  // namespace octachoron
