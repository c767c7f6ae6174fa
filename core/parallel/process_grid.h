#pragma once
/// ProcessGrid: a named Cartesian layout of ranks, an object that is passed down and never a global.
/// Peers are spoken of by axis, never by global rank. Rank = tp + TP*(cp + CP*(dp + DP*pp)): TP neighbours
/// are closest.
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace octachoron {

enum class Axis : std::uint8_t { tp, cp, dp, pp };  ///< fastest first
inline constexpr int kAxes = 4;
using Coordinate = std::array<int, kAxes>;  ///< indexed by Axis

const char* name(Axis axis);

/// A set of axes names the group of ranks that differ in these coordinates only.
struct AxisSet {
  std::uint8_t bits = 0;
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits(std::uint8_t(1u << int(axis))) {}  // NOLINT: an axis is a set of one
  constexpr bool has(Axis axis) const { return bits >> int(axis) & 1; }
  constexpr bool empty() const { return bits == 0; }
  constexpr Axis first() const { return Axis(std::countr_zero(bits)); }
  constexpr bool operator==(const AxisSet&) const = default;
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) {
    a.bits |= b.bits;
    return a;
  }
};
constexpr AxisSet operator|(Axis a, Axis b) {
  return AxisSet(a) | AxisSet(b);
}

std::string to_string(AxisSet axes);  ///< "dp x cp"

struct ProcessGrid {
  Coordinate extent{1, 1, 1, 1};

  int operator[](Axis axis) const { return extent[int(axis)]; }
  int size() const { return extent[0] * extent[1] * extent[2] * extent[3]; }
  int rank(const Coordinate& at) const;
  Coordinate coordinate(int rank) const;
  int neighbour(int rank, Axis axis, int shift) const;  ///< periodic

  /// Groups: all ranks along `axes`, or, with a block, that many neighbours along the one axis.
  int group_size(AxisSet axes, int block = 0) const;
  /// The lowest member names the group.
  int group_root(int rank, AxisSet axes, int block = 0) const;
  /// Ranks of the group of `rank`, in rank order.
  std::vector<int> group(int rank, AxisSet axes, int block = 0) const;
  /// Place of `rank` in its group.
  int place_in_group(int rank, AxisSet axes, int block = 0) const;
};

std::string to_string(const ProcessGrid& grid);  ///< "dp=2 tp=2 pp=1 cp=1"

/// A table of ranks, coordinates and hosts. \param hosts one name a rank; may be empty
std::string rank_map(const ProcessGrid& grid, const std::vector<std::string>& hosts);

}  // namespace octachoron
