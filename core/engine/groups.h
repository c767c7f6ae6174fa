#pragma once
/// The comm groups a set of programs needs: one per axes and purpose, made in the same order on all ranks.
#include <map>
#include <string>
#include <tuple>

#include "core/plugin/comm.h"
#include "core/program/program.h"

namespace octachoron {

class GroupTable {
 public:
  GroupTable(Communicator& communicator, const ProcessGrid& grid, int rank)
      : communicator_(communicator), grid_(grid), rank_(rank) {}

  /// Makes the groups of a program that are not there yet. Collective over all ranks of the grid.
  void add(const StepProgram& program);
  int id(const Peers& peers) const;

  struct Traffic {
    AxisSet axes;
    std::string purpose;
    oct_comm_counters counters;
  };
  /// What this rank sent since the last reset, group by group.
  std::vector<Traffic> traffic(bool reset);

 private:
  Communicator& communicator_;
  ProcessGrid grid_;
  int rank_;
  /// Axes, block and purpose. Sorted, so that all ranks make groups in one order.
  using Key = std::tuple<std::uint8_t, int, std::string>;
  static Key key(const Peers& peers) { return {peers.axes.bits, peers.block, peers.purpose}; }
  std::map<Key, int> groups_;
};

}  // namespace octachoron
