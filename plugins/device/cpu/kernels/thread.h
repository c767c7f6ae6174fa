#pragma once
/// Place of the calling thread in its OpenMP team: 0 outside of one. Selects a thread's part of the
/// workspace.
#ifdef _OPENMP
#include <omp.h>
#endif
#include <cstdint>

namespace octachoron::cpu {

static inline std::int64_t thread_number() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

}  // namespace octachoron::cpu
