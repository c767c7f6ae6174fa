/// Transposition of a matrix.
#include "plugins/device/cpu/kernels/transpose.h"

#include "core/plugin/dtype.h"
#include "plugins/device/cpu/kernels/groups.h"

namespace octachoron::cpu::OCT_CPU_ISA {
namespace {

template <class Bits>
void transpose(const Call& call) {
  const auto in = operand<const Bits>(call, 0);
  const auto out = operand<Bits>(call, 1);
  for_tiles(call.threads, in.rows, in.columns,
            [=](std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
              transpose_tile(in.row(row) + column, in.pitch, rows, columns, out.row(column) + row, out.pitch);
            });
}

}  // namespace

Kernel transpose_kernel(const oct_operation& operation) {
  switch (size_of(DType(operation.operand[0].dtype))) {
    case 1:
      return transpose<std::uint8_t>;
    case 2:
      return transpose<std::uint16_t>;
    default:
      return transpose<std::uint32_t>;
  }
}

}  // namespace octachoron::cpu::OCT_CPU_ISA
