#include "plugins/device/cuda/recorder.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/plugin/export.h"

#ifdef OCTACHORON_CUPTI
#include <cupti.h>

namespace octachoron::cuda {
namespace {

#if CUPTI_API_VERSION >= 130000
constexpr const char* kLibrary = "libcupti.so.13";
using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
#else
constexpr const char* kLibrary = "libcupti.so.12";
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
#endif

constexpr CUpti_ExternalCorrelationKind kSpanKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
// External correlations come with records of calls only, so those of both kinds of calls are needed too.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMCPY2,
                                         CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};

/// The functions of the library.
struct Api {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiEnableCallback) enable_callback = nullptr;
  decltype(&cuptiGetGraphNodeId) node_number = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
  std::string problem;

  Api();
};

/// By its name, or beside the runtime that this process uses.
void* open_library(std::string* problem) {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library != nullptr) return library;
  *problem = dlerror();
  Dl_info where{};
  if (dladdr(reinterpret_cast<void*>(&cudaRuntimeGetVersion), &where) == 0 || where.dli_fname == nullptr)
    return nullptr;
  const std::string runtime = where.dli_fname, folder = runtime.substr(0, runtime.rfind('/') + 1);
  for (const char* place : {"", "../extras/CUPTI/lib64/", "../../../extras/CUPTI/lib64/"}) {
    library = dlopen((folder + place + kLibrary).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library != nullptr) return library;
  }
  return nullptr;
}

Api::Api() {
  const char* value = std::getenv("OCTACHORON_CUPTI");
  if (value != nullptr && std::string_view(value) == "off") {
    problem = "OCTACHORON_CUPTI=off";
    return;
  }
  void* library = open_library(&problem);
  if (library == nullptr) return;
  problem.clear();
  const auto find = [&](auto& function, const char* name) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr && problem.empty()) problem = std::string(kLibrary) + " has no " + name;
    function = reinterpret_cast<std::decay_t<decltype(function)>>(symbol);
  };
  find(register_callbacks, "cuptiActivityRegisterCallbacks");
  find(enable, "cuptiActivityEnable");
  find(disable, "cuptiActivityDisable");
  find(flush_all, "cuptiActivityFlushAll");
  find(next_record, "cuptiActivityGetNextRecord");
  find(push, "cuptiActivityPushExternalCorrelationId");
  find(pop, "cuptiActivityPopExternalCorrelationId");
  find(timestamp, "cuptiGetTimestamp");
  find(subscribe, "cuptiSubscribe");
  find(unsubscribe, "cuptiUnsubscribe");
  find(enable_callback, "cuptiEnableCallback");
  find(node_number, "cuptiGetGraphNodeId");
  find(result_string, "cuptiGetResultString");
}

const Api& api() {
  static const Api loaded;
  return loaded;
}

std::string failure(const char* what, CUptiResult result) {
  const char* text = nullptr;
  if (api().result_string(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "unknown error";
  return std::string(what) + ": " + text + " (CUptiResult " + std::to_string(int(result)) + ")";
}

void check(CUptiResult result, const char* what) {
  if (result != CUPTI_SUCCESS) throw plugin::Failure(OCT_DEVICE_ERROR, failure(what, result));
}

void CUPTIAPI lend(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records) {
  *buffer = Recorder::instance().lend_buffer();
  *bytes = *buffer != nullptr ? Recorder::kBufferBytes : 0;
  *records = 0;  // as many as fit
}
void CUPTIAPI complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t bytes) {
  Recorder::instance().read_buffer(buffer, bytes);
}

/// 0 stands for a time that was not taken.
Period period(std::uint64_t begin, std::uint64_t end) {
  return begin == 0 || end == 0 ? Period{} : Period{std::int64_t(begin), std::int64_t(end)};
}

template <class Record>
const Record& as(const CUpti_Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

void append(const CUpti_Activity* record, Records* out) {
  const auto work = [&](const auto& r, std::uint32_t runtime_call) {
    out->works.push_back({r.correlationId, runtime_call, r.graphNodeId, period(r.start, r.end)});
  };
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      return work(as<KernelRecord>(record), 0);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return work(as<CopyRecord>(record), as<CopyRecord>(record).runtimeCorrelationId);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return work(as<CUpti_ActivityMemcpyPtoP4>(record), 0);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return work(as<CUpti_ActivityMemset4>(record), 0);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& r = as<CUpti_ActivityExternalCorrelation>(record);
      if (r.externalKind == kSpanKind) out->links.push_back({r.correlationId, r.externalId});
      return;
    }
    default:
      return;
  }
}

using Numbers = std::unordered_map<const void*, std::uint64_t>;

/// A graph that is made ready is a copy: its nodes have numbers of their own.
void CUPTIAPI note_copy(void* numbers, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RESOURCE || id != CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) return;
  const auto* copy =
      static_cast<const CUpti_GraphData*>(static_cast<const CUpti_ResourceData*>(data)->resourceDescriptor);
  std::uint64_t number = 0;
  if (api().node_number(copy->node, &number) == CUPTI_SUCCESS)
    (*static_cast<Numbers*>(numbers))[copy->originalNode] = number;
}

}  // namespace

std::string Recorder::start() {
  if (running_) return "another device of this process is being recorded";
  if (!api().problem.empty()) return api().problem;
  if (!registered_) {
    const CUptiResult result = api().register_callbacks(lend, complete);
    if (result != CUPTI_SUCCESS) return failure("CUPTI takes no buffers", result);
    registered_ = true;
  }
  for (const CUpti_ActivityKind kind : kKinds) {
    const CUptiResult result = api().enable(kind);
    if (result == CUPTI_SUCCESS) continue;
    for (const CUpti_ActivityKind enabled : kKinds) (void)api().disable(enabled);
    return failure("CUPTI does not record", result);  // as while another profiler does
  }
  running_ = true;
  (void)take();
  return {};
}

void Recorder::stop() {
  for (const CUpti_ActivityKind kind : kKinds) (void)api().disable(kind);
  running_ = false;
}

void Recorder::push(std::uint64_t span) {
  check(api().push(kSpanKind, span), "beginning a span");
}
void Recorder::pop() {
  std::uint64_t last = 0;
  check(api().pop(kSpanKind, &last), "ending a span");
}

std::int64_t Recorder::now_ns() const {
  std::uint64_t now = 0;
  (void)api().timestamp(&now);
  return std::int64_t(now);
}

void Recorder::flush(bool forced) {
  check(api().flush_all(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0), "asking for records");
}

std::unordered_map<const void*, std::uint64_t> Recorder::numbered(const std::function<void()>& instantiate) {
  Numbers numbers;
  CUpti_SubscriberHandle subscriber{};
  const bool hears =
      api().problem.empty() && api().subscribe(&subscriber, note_copy, &numbers) == CUPTI_SUCCESS;
  if (!hears) {
    instantiate();
    return numbers;
  }
  (void)api().enable_callback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
  try {
    instantiate();
  } catch (...) {
    (void)api().unsubscribe(subscriber);
    throw;
  }
  (void)api().unsubscribe(subscriber);
  return numbers;
}

void Recorder::read_buffer(std::uint8_t* buffer, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  CUpti_Activity* record = nullptr;
  while (api().next_record(buffer, bytes, &record) == CUPTI_SUCCESS) append(record, &records_);
  buffers_.push_back(buffer);
}

}  // namespace octachoron::cuda

#else  // built where CUPTI's headers are not

namespace octachoron::cuda {

std::string Recorder::start() {
  return "this plugin was built without CUPTI";
}
void Recorder::stop() {}
void Recorder::push(std::uint64_t) {}
void Recorder::pop() {}
std::int64_t Recorder::now_ns() const {
  return 0;
}
void Recorder::flush(bool) {}
std::unordered_map<const void*, std::uint64_t> Recorder::numbered(const std::function<void()>& instantiate) {
  instantiate();
  return {};
}
void Recorder::read_buffer(std::uint8_t*, std::size_t) {}

}  // namespace octachoron::cuda
#endif

namespace octachoron::cuda {

Recorder& Recorder::instance() {
  static Recorder* const recorder = new Recorder;  // never destroyed: CUPTI may call until the process ends
  return *recorder;
}

std::uint8_t* Recorder::lend_buffer() {
  const std::lock_guard lock(mutex_);
  if (buffers_.empty()) return static_cast<std::uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  std::uint8_t* buffer = buffers_.back();
  buffers_.pop_back();
  return buffer;
}

Records Recorder::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(records_, {});
}

}  // namespace octachoron::cuda
