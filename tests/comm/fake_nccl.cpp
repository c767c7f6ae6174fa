#include "tests/comm/fake_nccl.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

namespace octachoron::fake {

namespace {

std::unique_ptr<State>& holder() {
  static std::unique_ptr<State> state = std::make_unique<State>();
  return state;
}

/// Records a call; \return what the test wants this function to return
ncclResult_t record(const std::string& function, const std::string& rest = "") {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.calls.push_back(rest.empty() ? function : function + " " + rest);
  const auto found = s.results.find(function);
  return found == s.results.end() ? ncclSuccess : ncclResult_t(found->second);
}

std::string name_of(ncclComm_t communicator) {
  return "comm" + std::to_string(reinterpret_cast<std::uintptr_t>(communicator));
}

ncclComm_t next_communicator() {
  return reinterpret_cast<ncclComm_t>(std::uintptr_t(++state().communicators));
}

std::string words(std::initializer_list<std::string> all) {
  std::string text;
  for (const std::string& word : all) text.append(text.empty() ? "" : " ").append(word);
  return text;
}

std::string number(std::size_t n) {
  return std::to_string(n);
}

}  // namespace

State& state() {
  return *holder();
}
void reset() {
  holder() = std::make_unique<State>();
}
std::vector<std::string> take_calls() {
  const std::lock_guard lock(state().mutex);
  return std::move(state().calls);
}

const oct_device_table& device_table() {
  static const oct_device_table table = [] {
    oct_device_table t{};
    t.struct_size = sizeof t;
    t.allocate = [](oct_device*, int32_t, size_t bytes, void** out) {
      *out = std::calloc(1, bytes);
      return OCT_OK;
    };
    t.release = [](oct_device*, int32_t, void* memory) { std::free(memory); };
    t.lane_create = [](oct_device*, const char*, int32_t, oct_lane** out) {
      *out = lane(99);
      return OCT_OK;
    };
    t.lane_destroy = [](oct_device*, oct_lane*) {};
    t.lane_native = [](oct_device*, oct_lane* lane, int32_t* type, void** handle) {
      *type = OCT_NATIVE_CUDA_STREAM;
      *handle = lane;
      return OCT_OK;
    };
    t.event_create = [](oct_device*, oct_event** out) {
      *out = reinterpret_cast<oct_event*>(std::malloc(1));
      return OCT_OK;
    };
    t.event_destroy = [](oct_device*, oct_event* event) { std::free(event); };
    t.event_record = [](oct_device*, oct_event*, oct_lane*) { return OCT_OK; };
    t.event_query = [](oct_device*, oct_event*, int32_t* past) {
      *past = state().events_past ? 1 : 0;
      return OCT_OK;
    };
    t.event_synchronize = [](oct_device*, oct_event*) { return OCT_OK; };
    t.copy = [](oct_device*, void* to, const void* from, size_t bytes, oct_lane*) {
      std::memcpy(to, from, bytes);
      ++state().copies;
      return OCT_OK;
    };
    t.synchronize = [](oct_device*) { return OCT_OK; };
    return t;
  }();
  return table;
}
oct_device* device() {
  return reinterpret_cast<oct_device*>(std::uintptr_t(1));
}
oct_lane* lane(int number) {
  return reinterpret_cast<oct_lane*>(std::uintptr_t(number));
}

}  // namespace octachoron::fake

using namespace octachoron::fake;

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaError_t(state().cuda_error);
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  properties->uuid.bytes[0] = state().gpu;
  return cudaError_t(state().cuda_error);
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "no CUDA-capable device is detected";
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = state().is_capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 7, sizeof *id);
  return record("identity");
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId, int rank,
                                    ncclConfig_t* config) {
  *comm = next_communicator();
  return record("init", words({name_of(*comm), number(std::size_t(rank)), "of", number(std::size_t(ranks)),
                               config->blocking == 1 ? "blocking" : "not blocking"}));
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int, int key, ncclComm_t* made, ncclConfig_t*) {
  *made = next_communicator();
  return record("split", words({name_of(*made), "from", name_of(comm), "as", number(std::size_t(key))}));
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return record("destroy", name_of(comm));
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  state().aborted = true;
  return record("abort", name_of(comm));
}
const char* ncclGetErrorString(ncclResult_t) {
  return "unhandled system error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "the cable\nis cut";
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = ncclResult_t(state().async_error);
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  return record("begin");
}
ncclResult_t ncclGroupEnd() {
  return record("end");
}

ncclResult_t ncclAllGather(const void*, void*, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t) {
  return record("allgather", words({name_of(comm), number(count), "t" + number(type)}));
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t) {
  return record("reducescatter",
                words({name_of(comm), number(count), "t" + number(type), "op" + number(op)}));
}
ncclResult_t ncclAllReduce(const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t) {
  const ncclResult_t result =
      record("allreduce", words({name_of(comm), number(count), "t" + number(type), "op" + number(op)}));
  while (state().waits && !state().aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return state().waits ? ncclRemoteError : result;
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t) {
  return record("broadcast", words({name_of(comm), number(count), "t" + number(type), "from",
                                    number(std::size_t(root)), send == receive ? "in place" : "to another"}));
}
ncclResult_t ncclSend(const void*, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t) {
  return record("send",
                words({name_of(comm), number(count), "t" + number(type), "to", number(std::size_t(peer))}));
}
ncclResult_t ncclRecv(void*, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t) {
  return record("receive",
                words({name_of(comm), number(count), "t" + number(type), "from", number(std::size_t(peer))}));
}

}  // extern "C"
