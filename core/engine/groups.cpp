#include "core/engine/groups.h"

#include <set>

#include "core/base/error.h"

namespace octachoron {

void GroupTable::add(const StepProgram& program) {
  std::set<Key> needed;
  for (const Segment& segment : program.segments)
    for (const Operation& operation : segment.operations)
      if (is_communication(operation.op)) needed.insert(key(operation.peers));
  for (const Key& wanted : needed) {
    if (groups_.count(wanted)) continue;
    AxisSet axes;
    axes.bits = std::get<0>(wanted);
    const std::vector<int> members = grid_.group(rank_, axes, std::get<1>(wanted));
    groups_[wanted] = communicator_.create_group(members, std::get<2>(wanted));
  }
}

int GroupTable::id(const Peers& peers) const {
  const auto found = groups_.find(key(peers));
  ensure(found != groups_.end(), "no group over ", to_string(peers.axes), " for ", peers.purpose);
  return found->second;
}

std::vector<GroupTable::Traffic> GroupTable::traffic(bool reset) {
  std::vector<Traffic> result;
  for (const auto& [key, group] : groups_) {
    AxisSet axes;
    axes.bits = std::get<0>(key);
    result.push_back({axes, std::get<2>(key), communicator_.counters(group, reset)});
  }
  return result;
}

}  // namespace octachoron
