#pragma once
/// Which ranks of a grid run the same programs, found by building them.
#include <functional>
#include <string>
#include <vector>

#include "core/schedule/rank_programs.h"

namespace octachoron {

struct GridRoles {
  std::vector<RankPrograms> programs;  ///< one a role; the first is that of rank 0
  std::vector<int> role_of_corner;     ///< bit a of the index: last along Axis a, else first

  /// Of the corner that is last along the axes along which `at` is.
  int role_of(const ProcessGrid& grid, const Coordinate& at) const;
};

/// Builds the programs at the corners of the grid, first or last along each axis; corners of equal digest
/// share a role. \param build programs of a rank
GridRoles grid_roles(const ProcessGrid& grid, const std::function<RankPrograms(int rank)>& build);

struct GridVerdict {
  std::vector<std::string> problems;  ///< empty: free of races and deadlocks
  std::string symmetry;               ///< axes along which all ranks do the same
};

/// Memory of each role, and the order of communication over the whole grid, of both programs.
GridVerdict verify_roles(const ProcessGrid& grid, const GridRoles& roles);

}  // namespace octachoron
