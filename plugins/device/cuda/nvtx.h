#pragma once
/// Names for profilers: next to nothing where none is attached.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
namespace octachoron::cuda {
inline void push_name(const char* name) {
  nvtxRangePushA(name);
}
inline void pop_name() {
  nvtxRangePop();
}
}  // namespace octachoron::cuda
#else
namespace octachoron::cuda {
inline void push_name(const char*) {}
inline void pop_name() {}
}  // namespace octachoron::cuda
#endif
