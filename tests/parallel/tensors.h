#pragma once
/// How far two sets of global tensors are apart, and where: the largest of the product's measures.
#include <string>

#include "core/compare/deviation.h"

namespace octachoron::parity {

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
