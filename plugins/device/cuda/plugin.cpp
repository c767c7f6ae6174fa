/// The table of the device `cuda`.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/plugin/export.h"
#include "plugins/device/cuda/device.h"
#include "plugins/device/cuda/kernels/kernels.h"
#include "plugins/device/cuda/runtime.h"

namespace octachoron::cuda {
namespace {

using plugin::guard;

Device& as_device(oct_device* device) {
  return *reinterpret_cast<Device*>(device);
}
Lane& as_lane(oct_lane* lane) {
  return *reinterpret_cast<Lane*>(lane);
}
cudaEvent_t as_event(oct_event* event) {
  return reinterpret_cast<cudaEvent_t>(event);
}

/// function(device) with its GPU current, as a status.
template <class Function>
oct_status on(oct_device* device, Function function) {
  return guard([&] {
    as_device(device).make_current();
    function(as_device(device));
  });
}

oct_status create(const oct_host* host, const oct_device_options* options, oct_device** out) {
  return guard([&] { *out = reinterpret_cast<oct_device*>(new Device(*host, *options)); });
}
void destroy(oct_device* device) {
  delete reinterpret_cast<Device*>(device);
}
oct_status properties(oct_device* device, oct_device_properties* out) {
  return guard([&] {
    const std::size_t size = out->struct_size;
    *out = as_device(device).properties();
    out->struct_size = size;
  });
}

oct_status allocate(oct_device* device, int32_t kind, size_t bytes, void** out) {
  return on(device, [&](Device&) {
    // Small allocations share a page of 2 MiB, all of which other processes would map.
    const std::size_t page = kind == OCT_MEMORY_PEER ? std::size_t(2) << 20 : 1;
    const std::size_t some = (std::max(bytes, std::size_t(1)) + page - 1) / page * page;
    if (kind == OCT_MEMORY_PINNED) {
      check(cudaHostAlloc(out, some, cudaHostAllocMapped | cudaHostAllocPortable),
            "allocating pinned memory");
    } else if (kind == OCT_MEMORY_DEVICE || kind == OCT_MEMORY_PEER) {
      check(cudaMalloc(out, some), "allocating memory");
    } else {
      throw std::invalid_argument("unknown kind of memory");
    }
  });
}
void release(oct_device* device, int32_t kind, void* memory) {
  (void)on(device,
           [&](Device&) { (void)(kind == OCT_MEMORY_PINNED ? cudaFreeHost(memory) : cudaFree(memory)); });
}
oct_status export_memory(oct_device* device, void* memory, void* handle, size_t bytes) {
  return on(device, [&](Device&) {
    cudaIpcMemHandle_t exported;
    if (bytes < sizeof exported)
      throw std::invalid_argument("a handle of memory needs " + std::to_string(sizeof exported) + " bytes");
    check(cudaIpcGetMemHandle(&exported, memory), "exporting memory");
    std::memcpy(handle, &exported, sizeof exported);
  });
}
oct_status import_memory(oct_device* device, const void* handle, size_t bytes, void** out) {
  return on(device, [&](Device&) {
    cudaIpcMemHandle_t exported;
    if (bytes < sizeof exported)
      throw std::invalid_argument("a handle of memory has " + std::to_string(sizeof exported) + " bytes");
    std::memcpy(&exported, handle, sizeof exported);
    check(cudaIpcOpenMemHandle(out, exported, cudaIpcMemLazyEnablePeerAccess),
          "mapping another rank's memory");
  });
}
void close_memory(oct_device* device, void* imported) {
  (void)on(device, [&](Device&) { (void)cudaIpcCloseMemHandle(imported); });
}

oct_status lane_create(oct_device* device, const char* name, int32_t priority, oct_lane** out) {
  return on(device, [&](Device& d) { *out = reinterpret_cast<oct_lane*>(d.create_lane(name, priority)); });
}
void lane_destroy(oct_device* device, oct_lane* lane) {
  (void)on(device, [&](Device& d) { d.destroy_lane(&as_lane(lane)); });
}
oct_status lane_native(oct_device*, oct_lane* lane, int32_t* type, void** handle) {
  *type = OCT_NATIVE_CUDA_STREAM;
  *handle = as_lane(lane).stream;
  return OCT_OK;
}

oct_status event_create(oct_device* device, oct_event** out) {
  return on(device, [&](Device&) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
    *out = reinterpret_cast<oct_event*>(event);
  });
}
void event_destroy(oct_device* device, oct_event* event) {
  (void)on(device, [&](Device&) { (void)cudaEventDestroy(as_event(event)); });
}
oct_status event_record(oct_device* device, oct_event* event, oct_lane* lane) {
  return on(device, [&](Device&) {
    check(cudaEventRecord(as_event(event), as_lane(lane).stream), "recording an event");
  });
}
oct_status event_wait(oct_device* device, oct_event* event, oct_lane* lane) {
  return on(device, [&](Device&) {
    check(cudaStreamWaitEvent(as_lane(lane).stream, as_event(event), 0), "waiting for an event");
  });
}
oct_status event_query(oct_device* device, oct_event* event, int32_t* past) {
  return on(device, [&](Device& d) {
    const cudaError_t status = cudaEventQuery(as_event(event));
    if (status != cudaErrorNotReady) check(status, "asking for an event");
    (void)cudaGetLastError();
    *past = status == cudaSuccess ? 1 : 0;
    d.stamps().deliver();
  });
}
oct_status event_synchronize(oct_device* device, oct_event* event) {
  return on(device, [&](Device& d) {
    check(cudaEventSynchronize(as_event(event)), "waiting for an event");
    d.stamps().deliver();
  });
}

oct_status query(oct_device* device, const oct_operation* operation, oct_support* out) {
  return guard([&] { as_device(device).query(*operation, out); });
}
oct_status prepare(oct_device* device, const oct_operation* operation, int32_t* id) {
  return on(device, [&](Device& d) { *id = d.prepare(*operation); });
}
oct_status enqueue(oct_device* device, int32_t id, void* const* pointers, oct_lane* lane) {
  return on(device, [&](Device& d) { d.enqueue(id, pointers, as_lane(lane)); });
}
oct_status enqueue_host(oct_device* device, oct_lane* lane, void (*function)(void*), void* argument) {
  return on(device, [&](Device& d) { d.enqueue_host(as_lane(lane), function, argument); });
}
oct_status copy(oct_device* device, void* to, const void* from, size_t bytes, oct_lane* lane) {
  return on(device, [&](Device& d) { d.copy(to, from, bytes, as_lane(lane)); });
}
oct_status stamp(oct_device* device, oct_lane* lane, double* seconds) {
  return on(device, [&](Device& d) { d.stamps().post(seconds, as_lane(lane).stream); });
}
oct_status signal(oct_device* device, oct_lane* lane, uint32_t* flag, const uint32_t* epoch) {
  return on(device, [&](Device&) { signal_flag(flag, epoch, as_lane(lane).stream, false); });
}
oct_status await(oct_device* device, oct_lane* lane, const uint32_t* flag, const uint32_t* epoch) {
  return on(device, [&](Device&) { await_flag(flag, epoch, as_lane(lane).stream, false); });
}

oct_status capture_begin(oct_device* device, oct_lane* const* lanes, int32_t n) {
  return on(device, [&](Device& d) {
    std::vector<cudaStream_t> streams;
    for (int32_t i = 0; i < n; ++i) streams.push_back(as_lane(lanes[i]).stream);
    d.graphs().begin(streams);
  });
}
oct_status capture_end(oct_device* device, int32_t* graph) {
  return on(device, [&](Device& d) { *graph = d.graphs().end(); });
}
oct_status graph_launch(oct_device* device, int32_t graph, oct_lane* lane) {
  return on(device, [&](Device& d) { d.graphs().launch(graph, as_lane(lane).stream); });
}
void graph_destroy(oct_device* device, int32_t graph) {
  (void)on(device, [&](Device& d) { d.graphs().destroy(graph); });
}

oct_status synchronize(oct_device* device) {
  return on(device, [&](Device& d) { d.synchronize(); });
}
oct_status poll_error(oct_device* device, char* text, size_t bytes) {
  return on(device, [&](Device& d) {
    oct_status status = OCT_OK;
    const std::string error = d.take_error(&status);
    if (bytes > 0) std::snprintf(text, bytes, "%s", error.c_str());
    if (!error.empty()) throw plugin::Failure(status, error);
  });
}

oct_status span_begin(oct_device* device, oct_lane* lane, const char* name, double* begin, double* end) {
  return on(device, [&](Device& d) { d.begin_span(reinterpret_cast<Lane*>(lane), name, begin, end); });
}
oct_status span_end(oct_device* device, oct_lane* lane) {
  return on(device, [&](Device& d) { d.end_span(reinterpret_cast<Lane*>(lane)); });
}
oct_status graph_launch_timed(oct_device* device, int32_t graph, oct_lane* lane, double* times) {
  return on(device, [&](Device& d) { d.launch_timed(graph, as_lane(lane), times); });
}

constexpr oct_device_table kTable = {.struct_size = sizeof(oct_device_table),
                                     .create = create,
                                     .destroy = destroy,
                                     .properties = properties,
                                     .allocate = allocate,
                                     .release = release,
                                     .export_memory = export_memory,
                                     .import_memory = import_memory,
                                     .close_memory = close_memory,
                                     .lane_create = lane_create,
                                     .lane_destroy = lane_destroy,
                                     .lane_native = lane_native,
                                     .event_create = event_create,
                                     .event_destroy = event_destroy,
                                     .event_record = event_record,
                                     .event_wait = event_wait,
                                     .event_query = event_query,
                                     .event_synchronize = event_synchronize,
                                     .query = query,
                                     .prepare = prepare,
                                     .enqueue = enqueue,
                                     .enqueue_host = enqueue_host,
                                     .copy = copy,
                                     .stamp = stamp,
                                     .signal = signal,
                                     .await = await,
                                     .capture_begin = capture_begin,
                                     .capture_end = capture_end,
                                     .graph_launch = graph_launch,
                                     .graph_destroy = graph_destroy,
                                     .synchronize = synchronize,
                                     .poll_error = poll_error,
                                     .span_begin = span_begin,
                                     .span_end = span_end,
                                     .graph_launch_timed = graph_launch_timed};

constexpr oct_plugin kPlugin = {.abi_major = OCT_ABI_MAJOR,
                                .abi_minor = OCT_ABI_MINOR,
                                .struct_size = sizeof(oct_plugin),
                                .family = OCT_DEVICE,
                                .name = "cuda",
                                .version = OCTACHORON_CUDA_VERSION,
                                .build = OCT_PLUGIN_BUILD OCTACHORON_CUDA_BUILD,
                                .last_error = plugin::last_error,
                                .table = &kTable};

}  // namespace
}  // namespace octachoron::cuda

OCT_PLUGIN_EXPORT const oct_plugin* octachoron_plugin() {
  return &octachoron::cuda::kPlugin;
}
