#pragma once
/// Matrix products by cuBLASLt.
#include <cublasLt.h>

#include <cstdint>
#include <memory>

#include "plugins/device/cuda/prepared.h"
#include "plugins/device/cuda/tuning.h"

namespace octachoron::cuda {

/// What a checked GEMM is made of, and where its parts lie in the workspace. Pure.
struct GemmLayout {
  std::int64_t m, n, k;
  bool multiplies;  ///< false: depth 0
  bool finishes;    ///< the product goes to the workspace in FP32, a kernel makes the result of it
  bool is_fp8;
  std::int64_t scales, product, library, library_bytes;  ///< offsets, and what cuBLASLt may use
  std::int64_t bytes;
};
GemmLayout gemm_layout(const oct_operation& operation);

/// \throws plugin::Failure(OCT_DEVICE_ERROR) saying what failed and why
void check(cublasStatus_t status, const char* what);

/// A checked GEMM. Chooses its algorithm: from `tuning`, or by measurement on noise in memory of its own, or,
/// where that memory cannot be had or the product is small, the library's first proposal. What the library
/// cannot compute, as operands at odd addresses may be, an own kernel does, slowly. \throws plugin::Failure
/// for such a product in FP8
std::unique_ptr<Prepared> prepare_gemm(const oct_operation& operation, cublasLtHandle_t handle,
                                       Tuning& tuning);

}  // namespace octachoron::cuda
