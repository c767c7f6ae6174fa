#include "plugins/device/cuda/gemm_plan.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/plugin/dtype.h"
#include "core/plugin/export.h"
#include "plugins/device/common/check.h"

namespace octachoron::cuda {
namespace {

cudaDataType_t library_type(std::int32_t dtype) {
  switch (dtype) {
    case OCT_BF16:
      return CUDA_R_16BF;
    case OCT_E4M3:
      return CUDA_R_8F_E4M3;
    case OCT_E5M2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_32F;
  }
}

std::int64_t padded(std::int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/// Split products need room in proportion to the result; 32 MiB is what the library recommends on Hopper.
std::int64_t library_workspace(std::int64_t m, std::int64_t n) {
  return padded(std::min(std::int64_t(32) << 20, 32 * m * n + 4096));
}

}  // namespace

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw plugin::Failure(OCT_DEVICE_ERROR, std::string(what) + " failed (" + cublasLtGetStatusName(status) +
                                              ": " + cublasLtGetStatusString(status) + ")");
}

GemmLayout gemm_layout(const oct_operation& op) {
  const oct_matrix &a = op.operand[0], &bias = op.operand[4], &d = op.operand[5];
  GemmLayout l = {};
  l.m = d.rows, l.n = d.columns, l.k = op.i[0] == 1 ? a.rows : a.columns;
  l.multiplies = l.k > 0;
  l.is_fp8 = device_common::is_fp8(a.dtype);
  const bool other_result = a.dtype == OCT_F32 && d.dtype != OCT_F32;
  const bool other_bias = bias.rows > 0 && (bias.dtype != d.dtype || (l.is_fp8 && d.dtype != OCT_BF16));
  l.finishes = !l.multiplies || other_result || other_bias;
  l.scales = 0;
  l.product = l.scales + (l.is_fp8 ? 512 : 0);
  l.library = l.product + (l.multiplies && l.finishes ? padded(4 * l.m * l.n) : 0);
  l.library_bytes = l.multiplies ? library_workspace(l.m, l.n) : 0;
  l.bytes = l.library + l.library_bytes;
  return l;
}

GemmPlan::GemmPlan(const oct_operation& op, cublasLtHandle_t handle, std::int64_t alignment)
    : layout_(gemm_layout(op)), alignment_(alignment), handle_(handle) {
  const oct_matrix &a = op.operand[0], &b = op.operand[1], &d = op.operand[5];
  const cudaDataType_t result = library_type(layout_.finishes ? std::int32_t(OCT_F32) : d.dtype);
  bias_ = !layout_.finishes && op.operand[4].rows > 0;
  beta_ = !layout_.finishes && op.i[2] == 1 ? 1.f : 0.f;
  // Never in TF32: FP32 means 24 bits here.
  check(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  set(CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t(op.i[1] == 1 ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(CUBLASLT_MATMUL_DESC_TRANSB, std::int32_t(op.i[0] == 1 ? CUBLAS_OP_T : CUBLAS_OP_N));
  if (layout_.is_fp8) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t(op.i[3]));
  if (bias_) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t(CUBLASLT_EPILOGUE_BIAS));
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t(library_type(op.operand[4].dtype)));
  }
  const auto rows = [](std::int64_t n) { return std::uint64_t(n); };
  check(cublasLtMatrixLayoutCreate(&left_, library_type(b.dtype), rows(b.columns), rows(b.rows), b.pitch),
        "a layout");
  check(cublasLtMatrixLayoutCreate(&right_, library_type(a.dtype), rows(a.columns), rows(a.rows), a.pitch),
        "a layout");
  check(cublasLtMatrixLayoutCreate(&result_, result, rows(layout_.n), rows(layout_.m),
                                   layout_.finishes ? layout_.n : d.pitch),
        "a layout");
}

GemmPlan::~GemmPlan() {
  for (const cublasLtMatrixLayout_t layout : {left_, right_, result_})
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
  if (product_ != nullptr) cublasLtMatmulDescDestroy(product_);
}

template <class Value>
void GemmPlan::set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
  check(cublasLtMatmulDescSetAttribute(product_, attribute, &value, sizeof value), "describing a product");
}

std::vector<Candidate> GemmPlan::candidates() const {
  cublasLtMatmulPreference_t preference;
  check(cublasLtMatmulPreferenceCreate(&preference), "a preference");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value), "a preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(layout_.library_bytes));
  // Parts of a split product are summed in a fixed order, from the workspace.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(attribute, std::uint32_t(alignment_));
  std::vector<Candidate> found(8);
  int n = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, product_, left_, right_, result_, result_, preference, int(found.size()), found.data(), &n);
  cublasLtMatmulPreferenceDestroy(preference);
  found.resize(std::size_t(status == CUBLAS_STATUS_SUCCESS ? n : 0));
  std::erase_if(found, [](const Candidate& c) { return c.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

bool GemmPlan::accepts(const cublasLtMatmulAlgo_t& algorithm) const {
  Candidate result = {};
  return cublasLtMatmulAlgoCheck(handle_, product_, left_, right_, result_, result_, &algorithm, &result) ==
             CUBLAS_STATUS_SUCCESS &&
         std::int64_t(result.workspaceSize) <= layout_.library_bytes;
}

cublasStatus_t GemmPlan::run(const GemmPointers& p, cudaStream_t stream) const {
  if (bias_) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (layout_.is_fp8) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(p.inverse_scales + 64));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(p.inverse_scales));
  }
  const float one = 1;
  return cublasLtMatmul(handle_, product_, &one, p.b, left_, p.a, right_, &beta_, p.d, result_, p.d, result_,
                        &algorithm_, p.workspace, std::size_t(layout_.library_bytes), stream);
}

}  // namespace octachoron::cuda
