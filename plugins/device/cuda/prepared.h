#pragma once
/// Operations made ready to run, and what they need.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "core/plugin/operations.h"

namespace octachoron::cuda {

/// One operation that can be enqueued again and again.
class Prepared {
 public:
  virtual ~Prepared() = default;
  /// \param pointers kPointers of them, as kernels.h says
  virtual void run(void* const* pointers, cudaStream_t stream) = 0;
};

/// A checked description that is not a GEMM, by own kernels. Loads them. \param error see Call
std::unique_ptr<Prepared> prepare_kernel(const oct_operation& operation, std::uint64_t* error);

/// Workspace of a checked description, GEMM included, in bytes.
std::int64_t workspace_bytes(const oct_operation& operation, bool has_cudnn);

}  // namespace octachoron::cuda
