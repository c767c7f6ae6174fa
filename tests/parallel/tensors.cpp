#include "tests/parallel/tensors.h"

#include <cmath>

namespace octachoron::parity {

namespace {

// The key rows of a qkv bias with as many key heads as query heads.
KeyRows key_rows(const Tensors& tensors) {
  for (const auto& [name, tensor] : tensors)
    if (const std::int64_t third = std::int64_t(tensor.values.size()) / 3;
        name.ends_with(".attention.qkv.bias"))
      return {third, 2 * third};
  return {};
}

}  // namespace

void Deviation::note(double candidate, const std::string& name) {
  if (std::isnan(value) || candidate <= value) return;  // a NaN is noted and stays
  value = candidate, tensor = name;
}

Deviation relative_deviation(const Tensors& a, const Tensors& reference) {
  Deviation worst;
  for (const GradientError& error : gradient_errors(a, reference, key_rows(reference)))
    worst.note(error.relative, error.tensor);
  return worst;
}

Deviation zero_deviation(const Tensors& gradients) {
  Deviation worst;
  for (const GradientError& error : gradient_errors(gradients, gradients, key_rows(gradients)))
    worst.note(error.zero, error.tensor);
  return worst;
}

}  // namespace octachoron::parity
