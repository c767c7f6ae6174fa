#pragma once
/// How the device calls the compute kernels. The kernel sources are compiled once per instruction set, each
/// time into a namespace of its own (macro OCT_CPU_ISA); the device picks one when it is created.
///
/// Rule for kernels/: no inline function or template of the standard library that might be emitted out of
/// line. The linker keeps one copy of those, perhaps the one with instructions that this processor lacks.
#include <cstddef>
#include <cstdint>

#include "core/plugin/operations.h"

namespace octachoron::cpu {

/// Places in an array of pointers as kernels see it: operand k at k whatever the description left out, then
/// the workspace.
inline constexpr int kWorkspace = OCT_MAX_OPERANDS;
inline constexpr int kPointers = OCT_MAX_OPERANDS + 1;

/// Elements of type BF16. Arithmetic is in FP32.
struct Bf16 {
  std::uint16_t bits;
};

/// One execution of one operation.
struct Call {
  const oct_operation& operation;
  void* const* pointers;  ///< kPointers of them
  int threads;
  const double* table;  ///< of OCT_ROPE, see rope_table.h; otherwise null
};

using Kernel = void (*)(const Call&);

/// The kernel of a checked description; null if there is none.
using FindKernel = Kernel (*)(const oct_operation&);

namespace generic {
Kernel find_kernel(const oct_operation& operation);
}
namespace avx2 {
Kernel find_kernel(const oct_operation& operation);
}
namespace avx512 {
Kernel find_kernel(const oct_operation& operation);
}

}  // namespace octachoron::cpu
