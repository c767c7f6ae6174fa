#pragma once
/// Which GPU a rank takes, and what it is.
#include "core/plugin/abi.h"

namespace octachoron::cuda {

/// Chooses the GPU of this rank of the node and makes it current. Collective over the ranks of the host: rank
/// 0 logs who has which, and a warning where ranks share one. \returns its index \throws
/// plugin::Failure(OCT_DEVICE_ERROR) where no GPU can be used, or not by this build
int choose_device(const oct_host& host);

/// Facts of a GPU. Peaks are those of the data sheet, dense; 0 for GPUs that the table does not know.
oct_device_properties device_properties(int device);

}  // namespace octachoron::cuda
