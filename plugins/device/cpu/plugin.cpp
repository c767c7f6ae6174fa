/// The table of the device `cpu`.
#include <algorithm>
#include <cstdio>

#include "core/plugin/export.h"
#include "plugins/device/cpu/device.h"
#include "plugins/device/cpu/machine.h"

namespace octachoron::cpu {
namespace {

using plugin::guard;

Device& as_device(oct_device* device) {
  return *reinterpret_cast<Device*>(device);
}
Lane& as_lane(oct_lane* lane) {
  return *reinterpret_cast<Lane*>(lane);
}
Event& as_event(oct_event* event) {
  return *reinterpret_cast<Event*>(event);
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

oct_status allocate_memory(oct_device*, int32_t kind, size_t bytes, void** out) {
  return guard([&] {
    if (kind == OCT_MEMORY_PEER)
      throw plugin::Failure(OCT_UNSUPPORTED, "memory shared between ranks is not available on this device");
    if (kind != OCT_MEMORY_DEVICE && kind != OCT_MEMORY_PINNED)
      throw std::invalid_argument("unknown kind of memory");
    *out = allocate(bytes);
  });
}
void release_memory(oct_device*, int32_t, void* memory) {
  release(memory);
}

oct_status lane_create(oct_device* device, const char* name, int32_t, oct_lane** out) {
  return guard([&] { *out = reinterpret_cast<oct_lane*>(as_device(device).create_lane(name)); });
}
void lane_destroy(oct_device* device, oct_lane* lane) {
  as_device(device).destroy_lane(&as_lane(lane));
}
oct_status lane_native(oct_device*, oct_lane*, int32_t* type, void** handle) {
  *type = OCT_NATIVE_NONE;
  *handle = nullptr;
  return OCT_OK;
}

oct_status event_create(oct_device*, oct_event** out) {
  return guard([&] { *out = reinterpret_cast<oct_event*>(new Event); });
}
void event_destroy(oct_device*, oct_event* event) {
  delete &as_event(event);
}
oct_status event_record(oct_device*, oct_event* event, oct_lane* lane) {
  return guard([&] { Device::record(as_event(event), as_lane(lane)); });
}
oct_status event_wait(oct_device*, oct_event* event, oct_lane* lane) {
  return guard([&] { Device::wait(as_event(event), as_lane(lane)); });
}
oct_status event_query(oct_device*, oct_event* handle, int32_t* past) {
  return guard([&] {
    const Event& event = as_event(handle);
    *past = event.progress == nullptr || event.progress->past(event.position) ? 1 : 0;
  });
}
oct_status event_synchronize(oct_device*, oct_event* handle) {
  return guard([&] {
    const Event& event = as_event(handle);
    if (event.progress != nullptr) event.progress->wait_for(event.position);
  });
}

oct_status query(oct_device* device, const oct_operation* operation, oct_support* out) {
  return guard([&] { as_device(device).query(*operation, out); });
}
oct_status prepare_operation(oct_device* device, const oct_operation* operation, int32_t* id) {
  return guard([&] { *id = as_device(device).prepare(*operation); });
}
oct_status enqueue(oct_device* device, int32_t id, void* const* pointers, oct_lane* lane) {
  return guard([&] { as_device(device).enqueue(id, pointers, as_lane(lane)); });
}
oct_status enqueue_host(oct_device*, oct_lane* lane, void (*function)(void*), void* argument) {
  return guard([&] {
    Command command;
    command.kind = Command::Kind::function;
    command.function = function;
    command.pointers[0] = argument;
    as_lane(lane).enqueue(command);
  });
}
oct_status copy(oct_device*, void* to, const void* from, size_t bytes, oct_lane* lane) {
  return guard([&] {
    Command command;
    command.kind = Command::Kind::copy;
    command.pointers[0] = to;
    command.pointers[1] = const_cast<void*>(from);
    command.bytes = bytes;
    as_lane(lane).enqueue(command);
  });
}
oct_status stamp(oct_device*, oct_lane* lane, double* seconds) {
  return guard([&] {
    Command command;
    command.kind = Command::Kind::stamp;
    command.pointers[0] = seconds;
    as_lane(lane).enqueue(command);
  });
}

oct_status synchronize(oct_device* device) {
  return guard([&] { as_device(device).synchronize(); });
}
oct_status poll_error(oct_device* device, char* text, size_t bytes) {
  return guard([&] {
    const std::string error = as_device(device).take_error();
    if (bytes > 0) std::snprintf(text, bytes, "%s", error.c_str());
    if (!error.empty()) throw plugin::Failure(OCT_DEVICE_ERROR, error);
  });
}

constexpr oct_device_table kTable = {.struct_size = sizeof(oct_device_table),
                                     .create = create,
                                     .destroy = destroy,
                                     .properties = properties,
                                     .allocate = allocate_memory,
                                     .release = release_memory,
                                     .export_memory = nullptr,
                                     .import_memory = nullptr,
                                     .close_memory = nullptr,
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
                                     .prepare = prepare_operation,
                                     .enqueue = enqueue,
                                     .enqueue_host = enqueue_host,
                                     .copy = copy,
                                     .stamp = stamp,
                                     .signal = nullptr,
                                     .await = nullptr,
                                     .capture_begin = nullptr,
                                     .capture_end = nullptr,
                                     .graph_launch = nullptr,
                                     .graph_destroy = nullptr,
                                     .synchronize = synchronize,
                                     .poll_error = poll_error};

constexpr oct_plugin kPlugin = {.abi_major = OCT_ABI_MAJOR,
                                .abi_minor = OCT_ABI_MINOR,
                                .struct_size = sizeof(oct_plugin),
                                .family = OCT_DEVICE,
                                .name = "cpu",
                                .version = OCTACHORON_CPU_VERSION,
                                .build = OCT_PLUGIN_BUILD,
                                .last_error = plugin::last_error,
                                .table = &kTable};

}  // namespace
}  // namespace octachoron::cpu

OCT_PLUGIN_EXPORT const oct_plugin* octachoron_plugin() {
  return &octachoron::cpu::kPlugin;
}
