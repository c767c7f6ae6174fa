#pragma once
/// Times written by the device for host memory that it may not be able to address: they go to pinned places
/// first, and from there to where they are wanted as soon as somebody looks.
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

namespace octachoron::cuda {

class Stamps {
 public:
  Stamps() = default;
  ~Stamps();
  Stamps(const Stamps&) = delete;

  /// Takes pinned memory for 65536 times at once; more are allocated when they are needed.
  void reserve();
  /// Writes the clock, in seconds, when the stream gets there.
  void post(double* seconds, cudaStream_t stream);
  /// Hands over all times that have been written. From any thread.
  void deliver();

 private:
  struct Pending {
    double* place;
    double* wanted;
  };

  std::mutex mutex_;
  std::vector<double*> blocks_, free_;
  std::deque<Pending> pending_;
};

}  // namespace octachoron::cuda
