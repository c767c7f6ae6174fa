#pragma once
/// A product as cuBLASLt sees it, with one algorithm. Row-major matrices are column-major ones transposed, so
/// the library computes d' = op(b)' op(a)'.
#include <cublasLt.h>

#include <cstdint>
#include <vector>

#include "plugins/device/cuda/gemm.h"

namespace octachoron::cuda {

/// The pointers of one execution.
struct GemmPointers {
  const void *a, *b, *bias;
  void* d;
  const float* inverse_scales;  ///< of a, and 256 bytes on of b; FP8 only
  void* workspace;
};

// The library's type has no name of its own, which nvcc and templates do not always survive.
struct Candidate : cublasLtMatmulHeuristicResult_t {};

class GemmPlan {
 public:
  /// \param alignment of all pointers, in bytes: what the algorithms may count on
  GemmPlan(const oct_operation& operation, cublasLtHandle_t handle, std::int64_t alignment);
  ~GemmPlan();
  GemmPlan(const GemmPlan&) = delete;

  /// The library's proposals, its favourite first; none for what it cannot compute.
  std::vector<Candidate> candidates() const;
  void choose(const cublasLtMatmulAlgo_t& algorithm) { algorithm_ = algorithm; }
  /// Whether this library can run the algorithm on this product in this workspace.
  bool accepts(const cublasLtMatmulAlgo_t& algorithm) const;
  cublasStatus_t run(const GemmPointers& pointers, cudaStream_t stream) const;

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const;

  GemmLayout layout_;
  bool bias_;
  float beta_;
  std::int64_t alignment_;
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t left_ = nullptr, right_ = nullptr, result_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace octachoron::cuda
