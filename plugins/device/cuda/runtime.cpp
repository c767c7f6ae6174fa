#include "plugins/device/cuda/runtime.h"

#include <new>
#include <string>

#include "core/plugin/export.h"

namespace octachoron::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  if (status == cudaErrorMemoryAllocation) throw std::bad_alloc();
  throw plugin::Failure(OCT_DEVICE_ERROR, std::string(what) + " failed (" + cudaGetErrorName(status) + ": " +
                                              cudaGetErrorString(status) + ")");
}

}  // namespace octachoron::cuda
