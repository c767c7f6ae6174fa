#include "core/engine/groups.h"

#include <set>

#include "core/base/error.h"

namespace octachoron {

void GroupTable::add(const StepProgram& program) {
  // Sorted by axes and purpose: the order does not depend on the role, so all ranks agree on it.
  std::set<std::pair<std::uint8_t, std::string>> needed;
  for (const Segment& segment : program.segments)
    for (const Operation& operation : segment.operations)
      if (is_communication(operation.op)) needed.insert({operation.peers.axes.bits, operation.peers.purpose});
  for (const auto& key : needed) {
    if (groups_.count(key)) continue;
    AxisSet axes;
    axes.bits = key.first;
    const std::vector<int> members = grid_.group(rank_, axes);
    groups_[key] = communicator_.create_group(members, key.second);
  }
}

int GroupTable::id(const Peers& peers) const {
  const auto found = groups_.find({peers.axes.bits, peers.purpose});
  ensure(found != groups_.end(), "no group over ", to_string(peers.axes), " for ", peers.purpose);
  return found->second;
}

std::vector<GroupTable::Traffic> GroupTable::traffic(bool reset) {
  std::vector<Traffic> result;
  for (const auto& [key, group] : groups_) {
    AxisSet axes;
    axes.bits = key.first;
    result.push_back({axes, key.second, communicator_.counters(group, reset)});
  }
  return result;
}

}  // namespace octachoron
