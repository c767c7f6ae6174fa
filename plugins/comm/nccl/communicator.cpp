#include "plugins/comm/nccl/communicator.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "core/plugin/export.h"
#include "plugins/comm/nccl/mapping.h"

namespace octachoron::nccl {

namespace {

constexpr std::chrono::seconds kPatience{10};

}  // namespace

std::string text_of(ncclResult_t result) {
  std::string text = std::string("NCCL: ") + ncclGetErrorString(result);
  const char* detail = ncclGetLastError(nullptr);
  if (detail != nullptr && *detail != 0) text.append(" (").append(detail).append(")");
  // The log ends lines, and a message is one line.
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void check(ncclResult_t result, const std::string& what) {
  if (result != ncclSuccess) throw plugin::Failure(status_of(result), what + " failed: " + text_of(result));
}

std::string Communicators::error() const {
  for (const ncclComm_t communicator : all_) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(communicator, &state);
    if (asked != ncclSuccess) state = asked;
    if (state != ncclSuccess && state != ncclInProgress) return text_of(state);
  }
  return {};
}

void Communicators::abort() noexcept try {
  if (all_.empty()) return;
  int gpu = 0;
  (void)cudaGetDevice(&gpu);
  std::packaged_task<void()> task([gpu, all = std::exchange(all_, {})] {
    (void)cudaSetDevice(gpu);
    (void)ncclGroupStart();
    for (const ncclComm_t communicator : all) (void)ncclCommAbort(communicator);
    (void)ncclGroupEnd();
  });
  std::future<void> done = task.get_future();
  std::thread thread(std::move(task));
  if (done.wait_for(kPatience) == std::future_status::ready)
    thread.join();
  else
    thread.detach();
} catch (...) {  // no thread: then the end of the process ends them
}

void Communicators::destroy() noexcept {
  // The latest first: one that was split from another goes before it.
  for (; !all_.empty(); all_.pop_back()) (void)ncclCommDestroy(all_.back());
}

}  // namespace octachoron::nccl
