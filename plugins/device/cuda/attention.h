#pragma once
/// Attention by cuDNN where it can, by the own kernels elsewhere.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "plugins/device/cuda/cudnn.h"
#include "plugins/device/cuda/prepared.h"

namespace octachoron::cuda {

/// A checked attention or gradient of one, as plan_attention() has it. What cuDNN then does not take, and
/// operands at addresses that are not multiples of 16, the own kernels do, slowly.
/// \param cudnn null: there is none; outlives the result \param error see Call
/// \param warn told the shape and cuDNN's reason
std::unique_ptr<Prepared> prepare_attention(const oct_operation& operation, Cudnn* cudnn,
                                            std::uint64_t* error,
                                            const std::function<void(const std::string&)>& warn);

}  // namespace octachoron::cuda
