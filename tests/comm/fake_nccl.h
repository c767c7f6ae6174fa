#pragma once
/// NCCL and the CUDA runtime as far as the plugin uses them: calls are recorded, nothing moves.
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/plugin/abi.h"

namespace octachoron::fake {

struct State {
  std::mutex mutex;
  std::vector<std::string> calls;      ///< of NCCL, in order: "allreduce comm2 4 f7 sum"
  std::map<std::string, int> results;  ///< what a function returns instead of 0, by its first word
  int async_error = 0;                 ///< of all communicators
  int cuda_error = 0;                  ///< of every question about the GPU
  bool is_capturing = false;
  char gpu = 1;                    ///< first byte of the identity of this rank's GPU
  std::atomic<bool> waits{false};  ///< an all-reduce does not return before ncclCommAbort
  std::atomic<bool> aborted{false};
  int communicators = 0;
  // Of the device.
  bool events_past = false;
  int copies = 0;
};

State& state();  ///< of the running test; reset() before each
void reset();
std::vector<std::string> take_calls();

/// A device whose lanes are CUDA streams by name only; copies are made at once.
const oct_device_table& device_table();
oct_device* device();
oct_lane* lane(int number);  ///< 1, 2, ...

}  // namespace octachoron::fake
