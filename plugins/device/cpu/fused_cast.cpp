#include "plugins/device/cpu/fused_cast.h"

#include <array>

#include "core/plugin/dtype.h"
#include "core/plugin/fused_cast.h"

namespace octachoron::cpu {
namespace {

bool is_kept(const oct_operation& operation) {
  return operation.operand[fused_cast(operation.op).wide].rows > 0;
}

/// What is cast, where it is kept or as it lies in the workspace.
oct_matrix wide_matrix(const oct_operation& operation) {
  const FusedCast cast = fused_cast(operation.op);
  if (is_kept(operation)) return operation.operand[cast.wide];
  const oct_matrix& row = operation.operand[cast.row()];
  return {operation.operand[0].dtype, 0, row.rows, row.columns, row.columns};
}

oct_operation producer_of(const oct_operation& operation) {
  const FusedCast cast = fused_cast(operation.op);
  oct_operation producer = operation;
  producer.operands = cast.first;
  producer.operand[cast.wide] = wide_matrix(operation);
  for (int k = cast.first; k < OCT_MAX_OPERANDS; ++k) producer.operand[k] = {};
  return producer;
}

oct_operation cast_of(const oct_operation& operation) {
  const FusedCast cast = fused_cast(operation.op);
  oct_operation quantize{};
  quantize.struct_size = sizeof quantize;
  quantize.op = OCT_QUANTIZE;
  quantize.operands = 6;
  quantize.operand[0] = wide_matrix(operation);
  quantize.operand[1] = operation.operand[cast.scale()];
  quantize.operand[2] = operation.operand[cast.row()];
  quantize.operand[4] = operation.operand[cast.amax()];
  quantize.operand[5] = operation.operand[cast.counters()];
  return quantize;
}

}  // namespace

FusedCastOperation::FusedCastOperation(const oct_operation& operation, FindKernel find, int threads)
    : kept_(is_kept(operation)),
      producer_(producer_of(operation)),
      cast_(cast_of(operation)),
      produce_(find(producer_)),
      quantize_(find(cast_)),
      threads_(threads) {}

void FusedCastOperation::run(void* const* pointers) {
  const FusedCast cast = fused_cast(producer_.op);
  void* const wide = kept_ ? pointers[cast.wide] : pointers[kWorkspace];
  std::array<void*, kPointers> of_producer{}, of_cast{};
  for (int k = 0; k < cast.first; ++k) of_producer[std::size_t(k)] = pointers[k];
  of_producer[std::size_t(cast.wide)] = wide;
  of_cast[0] = wide;
  of_cast[1] = pointers[cast.scale()];
  of_cast[2] = pointers[cast.row()];
  of_cast[4] = pointers[cast.amax()];
  of_cast[5] = pointers[cast.counters()];
  produce_({producer_, of_producer.data(), threads_, nullptr});
  quantize_({cast_, of_cast.data(), threads_, nullptr});
}

std::int64_t fused_cast_workspace(const oct_operation& operation) {
  const oct_matrix wide = wide_matrix(operation);
  return is_kept(operation) ? 0 : wide.rows * wide.columns * size_of(DType(wide.dtype));
}

}  // namespace octachoron::cpu
