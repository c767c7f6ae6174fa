#pragma once
/// Global tensors put together in memory from the parts of the ranks: for comparisons, never on the way of a
/// run.
#include <mpi.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"

namespace octachoron {

/// A logical tensor without padding, row-major, in FP64.
struct Assembled {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;
  bool operator==(const Assembled&) const = default;
};
using Tensors = std::map<std::string, Assembled>;  ///< by the names of the contract

enum class Assembly { everywhere, on_first_rank };

/// Collective over `comm`: the tensors whose path begins with `group` ("/master/"), by what follows it. Each
/// element is taken from the one rank that owns it. \param where other ranks get tensors without values
/// \throws Error(internal) if an element has no owner or several
Tensors assemble(const std::vector<CheckpointTensor>& parts, const std::string& group, MPI_Comm comm,
                 Assembly where = Assembly::everywhere);

}  // namespace octachoron
