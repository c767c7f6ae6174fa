#pragma once
/// Which GPU a rank takes, and what it is.
#include "core/plugin/abi.h"

namespace octachoron::cuda {

/// Chooses the GPU of this rank of the node and makes it current. \returns its index
/// \throws plugin::Failure(OCT_DEVICE_ERROR) naming the ranks and the GPUs
int choose_device(const oct_host& host);

/// Facts of a GPU. Peaks are those of the data sheet, dense; 0 for GPUs that the table does not know.
oct_device_properties device_properties(int device);

}  // namespace octachoron::cuda
