#include "plugins/device/cuda/stamps.h"

#include <atomic>
#include <cmath>
#include <limits>

#include "plugins/device/cuda/kernels/kernels.h"
#include "plugins/device/cuda/runtime.h"

namespace octachoron::cuda {
namespace {

constexpr std::size_t kBlock = 65536;

}  // namespace

Stamps::~Stamps() {
  for (double* block : blocks_) (void)cudaFreeHost(block);
}

void Stamps::reserve() {
  double* block = nullptr;
  check(cudaHostAlloc(reinterpret_cast<void**>(&block), kBlock * sizeof(double),
                      cudaHostAllocMapped | cudaHostAllocPortable),
        "places for time stamps");
  blocks_.push_back(block);
  for (std::size_t i = 0; i < kBlock; ++i) free_.push_back(block + i);
}

void Stamps::post(double* seconds, cudaStream_t stream) {
  cudaPointerAttributes attributes = {};
  const bool known = cudaPointerGetAttributes(&attributes, seconds) == cudaSuccess;
  if (!known) (void)cudaGetLastError();
  if (known && attributes.type != cudaMemoryTypeUnregistered) return write_time(seconds, stream, false);
  double* place;
  {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) reserve();
    place = free_.back();
    free_.pop_back();
    *place = std::numeric_limits<double>::quiet_NaN();
    pending_.push_back({place, seconds});
  }
  write_time(place, stream, false);
}

void Stamps::deliver() {
  const std::lock_guard lock(mutex_);
  std::deque<Pending> later;
  for (const Pending& p : pending_) {
    const double time = std::atomic_ref(*p.place).load(std::memory_order_acquire);
    if (std::isnan(time)) {
      later.push_back(p);
    } else {
      *p.wanted = time;
      free_.push_back(p.place);
    }
  }
  pending_.swap(later);
}

}  // namespace octachoron::cuda
