/// Flags between processes, the clock, and copies of bytes.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

__global__ void signal_kernel(std::uint32_t* flag, const std::uint32_t* epoch) {
  const std::uint32_t value = *epoch;
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

/// At least the epoch, also when the counter has wrapped around.
__global__ void await_kernel(const std::uint32_t* flag, const std::uint32_t* epoch) {
  const std::uint32_t least = *epoch;
  std::uint32_t value;
  while (true) {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    if (std::int32_t(value - least) >= 0) return;
    __nanosleep(100);
  }
}

__global__ void time_kernel(double* seconds) {
  std::uint64_t nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  *seconds = double(nanoseconds) * 1e-9;
}

/// Sixteen bytes at a time where both ends allow it.
__global__ void __launch_bounds__(256) copy_kernel(char* to, const char* from, std::size_t bytes) {
  const std::size_t step = std::size_t(gridDim.x) * blockDim.x,
                    first = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const bool aligned =
      (reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % 16 == 0;
  const std::size_t words = aligned ? bytes / 16 : 0;
  for (std::size_t i = first; i < words; i += step)
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  for (std::size_t i = 16 * words + first; i < bytes; i += step) to[i] = from[i];
}

/// Only what launch() looks at.
Call bare(cudaStream_t stream, bool load) {
  static constexpr oct_operation none = {};
  return {none, nullptr, stream, load, nullptr, nullptr};
}

}  // namespace

void write_time(double* seconds, cudaStream_t stream, bool load) {
  launch(bare(stream, load), time_kernel, dim3(1), 1, 0, seconds);
}
void copy_bytes(void* to, const void* from, std::size_t bytes, cudaStream_t stream, bool load) {
  const std::size_t blocks = (bytes + 16 * 256 - 1) / (16 * 256);
  launch(bare(stream, load), copy_kernel, dim3(unsigned(blocks < 64 ? blocks : 64)), 256, 0,
         static_cast<char*>(to), static_cast<const char*>(from), bytes);
}
void signal_flag(std::uint32_t* flag, const std::uint32_t* epoch, cudaStream_t stream, bool load) {
  launch(bare(stream, load), signal_kernel, dim3(1), 1, 0, flag, epoch);
}
void await_flag(const std::uint32_t* flag, const std::uint32_t* epoch, cudaStream_t stream, bool load) {
  launch(bare(stream, load), await_kernel, dim3(1), 1, 0, flag, epoch);
}

}  // namespace octachoron::cuda
