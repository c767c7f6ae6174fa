#pragma once
/// Errors of the CUDA runtime as exceptions.
#include <cuda_runtime_api.h>

namespace octachoron::cuda {

/// \throws std::bad_alloc, or plugin::Failure(OCT_DEVICE_ERROR) saying what failed and why. Clears the error
/// if it is not one of those that end the context.
void check(cudaError_t status, const char* what);

}  // namespace octachoron::cuda
