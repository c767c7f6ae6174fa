#include "core/parallel/process_grid.h"

#include <algorithm>

#include "core/base/text.h"

namespace octachoron {

namespace {
constexpr std::array<Axis, kAxes> kAllAxes{Axis::tp, Axis::cp, Axis::dp, Axis::pp};
}

const char* name(Axis axis) {
  static constexpr const char* names[] = {"tp", "cp", "dp", "pp"};
  return names[int(axis)];
}

std::string to_string(AxisSet axes) {
  std::string result;
  for (Axis axis : {Axis::dp, Axis::tp, Axis::pp, Axis::cp}) {
    if (!axes.has(axis)) continue;
    if (!result.empty()) result += " x ";
    result += name(axis);
  }
  return result;
}

int ProcessGrid::rank(const Coordinate& at) const {
  int rank = 0;
  for (int axis = kAxes - 1; axis >= 0; --axis) rank = rank * extent[axis] + at[axis];
  return rank;
}

Coordinate ProcessGrid::coordinate(int rank) const {
  Coordinate at{};
  for (int axis = 0; axis < kAxes; ++axis) {
    at[axis] = rank % extent[axis];
    rank /= extent[axis];
  }
  return at;
}

int ProcessGrid::neighbour(int rank, Axis axis, int shift) const {
  Coordinate at = coordinate(rank);
  const int n = extent[int(axis)];
  at[int(axis)] = ((at[int(axis)] + shift) % n + n) % n;
  return this->rank(at);
}

int ProcessGrid::group_size(AxisSet axes, int block) const {
  int size = 1;
  for (Axis axis : kAllAxes) size *= axes.has(axis) ? extent[int(axis)] : 1;
  return block > 0 ? std::min(block, size) : size;
}

int ProcessGrid::group_root(int rank, AxisSet axes, int block) const {
  Coordinate at = coordinate(rank);
  for (Axis axis : kAllAxes)
    if (axes.has(axis)) at[int(axis)] = block > 0 ? at[int(axis)] / block * block : 0;
  return this->rank(at);
}

std::vector<int> ProcessGrid::group(int rank, AxisSet axes, int block) const {
  const int root = group_root(rank, axes, block);
  std::vector<int> members;
  for (int other = 0; other < size(); ++other)
    if (group_root(other, axes, block) == root) members.push_back(other);
  return members;
}

int ProcessGrid::place_in_group(int rank, AxisSet axes, int block) const {
  const std::vector<int> members = group(rank, axes, block);
  return int(std::find(members.begin(), members.end(), rank) - members.begin());
}

std::string to_string(const ProcessGrid& grid) {
  return text("dp=", grid[Axis::dp], " tp=", grid[Axis::tp], " pp=", grid[Axis::pp], " cp=", grid[Axis::cp]);
}

std::string rank_map(const ProcessGrid& grid, const std::vector<std::string>& hosts) {
  std::string table = "  rank   dp   tp   pp   cp  host\n";
  for (int rank = 0; rank < grid.size(); ++rank) {
    const Coordinate at = grid.coordinate(rank);
    char line[64];
    std::snprintf(line, sizeof line, "%6d %4d %4d %4d %4d  ", rank, at[int(Axis::dp)], at[int(Axis::tp)],
                  at[int(Axis::pp)], at[int(Axis::cp)]);
    table += line + (hosts.empty() ? std::string("-") : hosts[rank]) + "\n";
  }
  return table;
}

}  // namespace octachoron
