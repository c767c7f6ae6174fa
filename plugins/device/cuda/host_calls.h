#pragma once
/// Host functions in the order of a stream. The driver runs its own host callbacks one after the other for
/// all streams, so one that waits for another stream's would wait for ever; these have a thread for each
/// stream.
#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace octachoron::cuda {

class HostCalls {
 public:
  /// Takes its pinned memory here: to allocate later could wait for streams that wait for the host.
  /// \param before runs ahead of each function, on its thread
  HostCalls(cudaStream_t stream, std::function<void()> before);
  /// The stream must be empty.
  ~HostCalls();
  HostCalls(const HostCalls&) = delete;

  /// The function is called when the stream gets there; the stream goes on when it has returned.
  void post(void (*function)(void*), void* argument);

 private:
  struct Item {
    void (*function)(void*);
    void* argument;
  };
  void reach();
  void work();

  cudaStream_t stream_;
  std::function<void()> before_;
  std::uint32_t* done_;  // pinned: the number of functions that have returned
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  std::uint32_t posted_ = 0, reached_ = 0;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace octachoron::cuda
