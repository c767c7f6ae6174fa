#include "plugins/device/cpu/scaled_gemm.h"

#include "core/plugin/dtype.h"
#include "plugins/device/cpu/gemm.h"
#include "plugins/device/cpu/kernels/layout.h"

namespace octachoron::cpu {
namespace {

oct_matrix dense(const oct_matrix& m, oct_dtype type) {
  return {type, 0, m.rows, m.columns, m.columns};
}
std::int64_t bytes(const oct_matrix& m) {
  return round_up(m.rows * m.columns * size_of(DType(m.dtype)), 256);
}

// Values of 8 bits are exact in BF16 too: taken where the processor multiplies that.
oct_operation plain_product(const oct_operation& operation) {
  oct_operation product{};
  product.struct_size = sizeof product;
  product.op = OCT_GEMM;
  product.operands = operation.operands;
  product.operand[5] = dense(operation.operand[5], OCT_F32);
  product.i[0] = operation.i[0];
  product.i[1] = operation.i[1];
  for (const oct_dtype type : {OCT_BF16, OCT_F32}) {
    for (const int k : {0, 1}) product.operand[k] = dense(operation.operand[k], type);
    if (uses_onednn(product, onednn_isa())) break;
  }
  return product;
}

}  // namespace

ScaledGemmPlan::ScaledGemmPlan(const oct_operation& operation, int threads) : product(plain_product(operation)) {
  a_offset = 0;
  b_offset = a_offset + bytes(product.operand[0]);
  product_offset = b_offset + bytes(product.operand[1]);
  scratch_offset = product_offset + bytes(product.operand[5]);
  workspace = scratch_offset + planned_workspace(product, threads);
}

ScaledGemm::ScaledGemm(const oct_operation& operation, FindKernel find, int threads)
    : operation_(operation),
      plan_(operation, threads),
      product_(prepare(plan_.product, find, threads)),
      finish_(find(operation)),
      threads_(threads) {
  for (int k = 0; k < 2; ++k) {
    expand_[k] = {};
    expand_[k].struct_size = sizeof(oct_operation);
    expand_[k].op = OCT_COPY;
    expand_[k].operands = 2;
    expand_[k].operand[0] = operation.operand[k];
    expand_[k].operand[1] = plan_.product.operand[k];
    expand_kernel_[k] = find(expand_[k]);
  }
}

void ScaledGemm::run(void* const* pointers) {
  char* workspace = static_cast<char*>(pointers[kWorkspace]);
  void* product[kPointers] = {workspace + plan_.a_offset, workspace + plan_.b_offset};
  for (int k = 0; k < 2; ++k) {
    void* const copy[kPointers] = {pointers[k], product[k]};
    expand_kernel_[k]({expand_[k], copy, threads_, nullptr});
  }
  product[5] = workspace + plan_.product_offset;
  product[kWorkspace] = workspace + plan_.scratch_offset;
  product_->run(product);
  void* finish[kPointers];
  for (int k = 0; k < kWorkspace; ++k) finish[k] = pointers[k];
  finish[kWorkspace] = product[5];
  finish_({operation_, finish, threads_, nullptr});
}

}  // namespace octachoron::cpu
