#include "plugins/device/cuda/machine.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "core/plugin/export.h"
#include "plugins/device/cuda/kernels/kernels.h"
#include "plugins/device/cuda/runtime.h"
#include "plugins/device/cuda/sharing.h"

namespace octachoron::cuda {
namespace {

/// The same SXM chips; PCIe and NVL cards are slower and have names of their own.
bool is_hopper_sxm(const char* name) {
  for (const char* known : {"NVIDIA H200", "NVIDIA H100 80GB HBM3"})
    if (std::strcmp(name, known) == 0) return true;
  return false;
}

std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

/// The runtime calls a driver that is not there one that is too old.
std::string why_no_gpu(cudaError_t status) {
  int newest = 0;
  if (status == cudaSuccess) return "none is visible";
  if (status != cudaErrorInsufficientDriver || cudaDriverGetVersion(&newest) != cudaSuccess)
    return cudaGetErrorString(status);
  if (newest == 0) return "no driver of NVIDIA is installed here";
  return "the driver is made for CUDA " + cuda_version(newest) + " or older, this plugin was built with " +
         cuda_version(CUDART_VERSION);
}

int take_gpu(const oct_host& host) {
  // Read when the context is made. Streams beyond this number share queues, where one that waits for a flag
  // would hold up another.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    (void)cudaGetLastError();
    throw plugin::Failure(OCT_DEVICE_ERROR,
                          "no NVIDIA GPU can be used (" + why_no_gpu(status) +
                              "); look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use another device");
  }
  // One visible GPU: the launcher gave each rank its own, or all are meant to share it.
  const int index = host.local_rank % count;
  check(cudaSetDevice(index), "taking a GPU");
  try {
    write_time(nullptr, nullptr, true);
  } catch (const plugin::Failure&) {
    cudaDeviceProp p;
    check(cudaGetDeviceProperties(&p, index), "asking a GPU");
    throw plugin::Failure(OCT_DEVICE_ERROR,
                          std::string("the ") + p.name + " (sm_" + std::to_string(p.major) +
                              std::to_string(p.minor) +
                              ") is not among the GPUs that this plugin was built for; build it with "
                              "OCTACHORON_CUDA_ARCHITECTURES set to it");
  }
  return index;
}

RankGpu describe_gpu(int index) {
  RankGpu gpu;
  if (gethostname(gpu.node, sizeof gpu.node - 1) != 0) std::strcpy(gpu.node, "unknown");
  if (index < 0) return gpu;
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, index), "asking a GPU");
  static_assert(sizeof p.uuid == sizeof gpu.uuid);
  std::memcpy(gpu.uuid.data(), &p.uuid, sizeof p.uuid);
  check(cudaDeviceGetPCIBusId(gpu.bus, sizeof gpu.bus, index), "asking a GPU");
  return gpu;
}

void tell(const oct_host& host, const std::vector<RankGpu>& ranks) {
  if (host.log == nullptr) return;
  for (const std::string& line : gpus_by_node(ranks)) host.log(host.user, 0, line.c_str());
  const std::string warning = sharing_warning(ranks);
  if (!warning.empty()) host.log(host.user, 1, warning.c_str());
}

}  // namespace

int choose_device(const oct_host& host) {
  if (host.size == 1 || host.allgather == nullptr) return take_gpu(host);
  int index = -1;
  RankGpu mine = describe_gpu(index);
  std::exception_ptr failure;
  try {
    index = take_gpu(host);
    mine = describe_gpu(index);
  } catch (...) {  // the others wait in the exchange
    failure = std::current_exception();
  }
  std::vector<RankGpu> ranks(std::size_t(host.size));
  const oct_status status = host.allgather(host.user, &mine, ranks.data(), sizeof mine);
  if (failure) std::rethrow_exception(failure);
  if (status != OCT_OK)
    throw plugin::Failure(OCT_COMM_ERROR, "the ranks cannot exchange which GPUs they have");
  const bool all =
      std::all_of(ranks.begin(), ranks.end(), [](const RankGpu& rank) { return *rank.bus != 0; });
  if (all) tell(host, ranks);
  return index;
}

oct_device_properties device_properties(int device) {
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, device), "asking a GPU");
  oct_device_properties out{};
  std::snprintf(out.description, sizeof out.description, "%.60s, %d processors, sm_%d%d", p.name,
                p.multiProcessorCount, p.major, p.minor);
  out.memory_bytes = std::int64_t(p.totalGlobalMem);
  out.has_graphs = 1;
  if (is_hopper_sxm(p.name)) {
    out.peak_flops[OCT_F32] = 67e12;
    out.peak_flops[OCT_BF16] = out.peak_flops[OCT_F16] = 989e12;
    out.peak_flops[OCT_E4M3] = out.peak_flops[OCT_E5M2] = 1979e12;
  }
  return out;
}

}  // namespace octachoron::cuda
