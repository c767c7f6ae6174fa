#include "plugins/device/cuda/host_calls.h"

#include <cuda.h>

#include <atomic>
#include <string>
#include <utility>

#include "core/plugin/export.h"
#include "plugins/device/cuda/runtime.h"

namespace octachoron::cuda {
namespace {

using WaitValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

/// From the driver by way of the runtime: the plugin must load where there is no driver.
WaitValue wait_value() {
  static const WaitValue function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    check(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &found, 11070, cudaEnableDefault, &result),
          "looking for cuStreamWaitValue32");
    if (found == nullptr) throw plugin::Failure(OCT_DEVICE_ERROR, "this driver has no cuStreamWaitValue32");
    return reinterpret_cast<WaitValue>(found);
  }();
  return function;
}

}  // namespace

HostCalls::HostCalls(cudaStream_t stream, std::function<void()> before)
    : stream_(stream), before_(std::move(before)) {
  check(cudaHostAlloc(reinterpret_cast<void**>(&done_), sizeof *done_,
                      cudaHostAllocMapped | cudaHostAllocPortable),
        "a flag of host functions");
  *done_ = 0;
}

HostCalls::~HostCalls() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  (void)cudaFreeHost(done_);
}

void HostCalls::post(void (*function)(void*), void* argument) {
  const WaitValue wait = wait_value();
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  {
    const std::lock_guard lock(mutex_);
    items_.push_back({function, argument});
    ++posted_;
  }
  check(cudaLaunchHostFunc(
            stream_, [](void* self) { static_cast<HostCalls*>(self)->reach(); }, this),
        "a host function");
  const CUresult status =
      wait(stream_, reinterpret_cast<CUdeviceptr>(done_), posted_, CU_STREAM_WAIT_VALUE_GEQ);
  if (status != CUDA_SUCCESS)
    throw plugin::Failure(OCT_DEVICE_ERROR,
                          "waiting for a host function failed (CUresult " + std::to_string(status) + ")");
}

void HostCalls::reach() {
  {
    const std::lock_guard lock(mutex_);
    ++reached_;
  }
  changed_.notify_one();
}

void HostCalls::work() {
  for (std::uint32_t returned = 0;;) {
    Item item;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return reached_ != returned || stops_; });
      if (reached_ == returned) return;
      item = items_.front();
      items_.pop_front();
    }
    before_();
    item.function(item.argument);
    ++returned;
    std::atomic_ref(*done_).store(returned, std::memory_order_release);
  }
}

}  // namespace octachoron::cuda
