#pragma once
/// Facts of the processor, and memory.
#include <cstddef>
#include <cstdint>
#include <string>

#include "plugins/device/cpu/kernels/kernels.h"

namespace octachoron::cpu {

std::string processor_model();
std::int64_t physical_memory();

/// The kernels for the instruction set of this processor.
struct Instructions {
  const char* name;  ///< "generic", "avx2", "avx512"
  FindKernel find;
};
/// The best that this processor has. The environment variable OCTACHORON_CPU_ISA names a lesser one.
/// \throws std::invalid_argument if it names one that is unknown or that the processor lacks
Instructions choose_instructions();

/// Aligned to a page, and to a huge page where large. \throws std::bad_alloc
void* allocate(std::size_t bytes);
void release(void* memory);

}  // namespace octachoron::cpu
