#pragma once
/// The tensors of the model families, as contract section 4 names them.
#include "core/model/parameter_set.h"

namespace octachoron {

/// For the rank at `at`, in the order the forward pass uses them.
std::vector<ParameterTensor> model_tensors(const ModelShape& shape, double init_std, const Coordinate& at);

}  // namespace octachoron
