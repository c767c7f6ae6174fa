#pragma once
/// How far two sets of global tensors are apart.
#include <cstdint>
#include <string>
#include <vector>

#include "core/checkpoint/assemble.h"
#include "core/config/parameters.h"

namespace octachoron {

double norm_of(const Tensors& tensors);  ///< L2, each logical element once

/// ||a - b|| / ||b||; 0 where they are equal, infinite where b alone is zero.
double relative_distance(const Assembled& a, const Assembled& reference);

/// Rows of each qkv bias that belong to keys: a constant added to all scores of a row does not change the
/// softmax, so without RoPE their exact gradient is zero, and what is computed is rounding. Empty: no such
/// rows.
struct KeyRows {
  std::int64_t begin = 0, end = 0;
};
KeyRows zero_gradient_rows(const ModelParameters& model);

/// Of one gradient.
struct GradientError {
  std::string tensor;
  double relative = 0;  ///< ||g - g0|| / ||g0||, the key rows of qkv biases left out
  double zero = 0;  ///< norm of these rows over the norm of their layer's gradients; 0 where there are none
};
/// In the order of names. \param a, reference of the same names and shapes
std::vector<GradientError> gradient_errors(const Tensors& a, const Tensors& reference, const KeyRows& keys);
/// ||g - g0|| / ||g0|| over all tensors together.
double total_error(const Tensors& a, const Tensors& reference);

}  // namespace octachoron
