#pragma once
/// Global tensors put together from the parts of the ranks, and how far two sets of them are apart.
#include <mpi.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"

namespace octachoron::parity {

/// A logical tensor without padding, row-major, in FP64.
struct Assembled {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;
  bool operator==(const Assembled&) const = default;
};
using Tensors = std::map<std::string, Assembled>;  ///< by the names of the contract

/// Collective over `comm`: the tensors below `group` ("/master/"), alike on all ranks. Each element is taken
/// from the one rank that owns it. \throws Error(internal) if an element has no owner or several
Tensors assemble(const std::vector<CheckpointTensor>& parts, const std::string& group, MPI_Comm comm);

double norm_of(const Tensors& tensors);  ///< L2, each logical element once

/// The largest of a quantity over tensors, and where it is.
struct Deviation {
  double value = 0;
  std::string tensor;
  void note(double candidate, const std::string& name);
};

/// ||a - b|| / ||b|| per tensor, the largest. The key rows of qkv biases are left out: their exact gradient
/// is zero (a constant added to all scores of a row does not change the softmax), see zero_deviation().
Deviation relative_deviation(const Tensors& a, const Tensors& reference);
/// Norm of the key rows of each qkv bias over the norm of its layer, the largest.
Deviation zero_deviation(const Tensors& gradients);

}  // namespace octachoron::parity
