#include "core/plugin/device.h"

#include <cstdint>
#include <utility>

#include "core/base/text.h"

namespace octachoron {

Device::Device(PluginLibrary library, const oct_host& host, const oct_device_options& options)
    : library_(std::move(library)),
      has_spans_(library_.has(&oct_device_table::span_begin) && library_.has(&oct_device_table::span_end)) {
  check(table().create(&host, &options, &handle_), "create");
}

Device::~Device() {
  if (handle_ != nullptr) table().destroy(handle_);
}

oct_device_properties Device::properties() const {
  oct_device_properties properties{};
  properties.struct_size = sizeof properties;
  check(table().properties(handle_, &properties), "properties");
  return properties;
}

oct_support Device::query(const oct_operation& operation) const {
  oct_support support{};
  support.struct_size = sizeof support;
  check(table().query(handle_, &operation, &support), "query");
  return support;
}

int Device::prepare(const oct_operation& operation) {
  std::int32_t id = 0;
  check(table().prepare(handle_, &operation, &id), "prepare");
  return id;
}

std::string Device::poll_error(oct_status* status) {
  char text[512] = "";
  const oct_status found = table().poll_error(handle_, text, sizeof text);
  if (status != nullptr) *status = found;
  if (found == OCT_OK) return "";
  return *text != 0 ? text : "device error without a text";
}

DeviceMemory::DeviceMemory(Device& device, oct_memory_kind kind, std::size_t bytes)
    : device_(&device), kind_(kind), bytes_(bytes) {
  const oct_status status = device.table().allocate(device.handle(), kind, bytes, &data_);
  if (status != OCT_OK) device.check(status, text("allocate ", (bytes >> 20) + 1, " MiB").c_str());
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->table().release(device_->handle(), kind_, data_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : device_(other.device_),
      kind_(other.kind_),
      bytes_(std::exchange(other.bytes_, 0)),
      data_(std::exchange(other.data_, nullptr)) {}

DeviceLane::DeviceLane(Device& device, const std::string& name, int priority) : device_(&device) {
  device.check(device.table().lane_create(device.handle(), name.c_str(), priority, &handle_), "lane_create");
}

DeviceLane::~DeviceLane() {
  if (handle_ != nullptr) device_->table().lane_destroy(device_->handle(), handle_);
}

DeviceLane::DeviceLane(DeviceLane&& other) noexcept
    : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}

DeviceEvent::DeviceEvent(Device& device) : device_(&device) {
  device.check(device.table().event_create(device.handle(), &handle_), "event_create");
}

DeviceEvent::~DeviceEvent() {
  if (handle_ != nullptr) device_->table().event_destroy(device_->handle(), handle_);
}

DeviceEvent::DeviceEvent(DeviceEvent&& other) noexcept
    : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}

bool DeviceEvent::past() const {
  std::int32_t past = 0;
  device_->check(device_->table().event_query(device_->handle(), handle_, &past), "event_query");
  return past != 0;
}

void DeviceEvent::synchronize() const {
  device_->check(device_->table().event_synchronize(device_->handle(), handle_), "event_synchronize");
}

DeviceGraph::DeviceGraph(Device& device, std::span<oct_lane* const> lanes) : device_(device), lane_(lanes.front()) {
  device.check(device.table().capture_begin(device.handle(), lanes.data(), std::int32_t(lanes.size())), "capture_begin");
}

void DeviceGraph::finish() {
  device_.check(device_.table().capture_end(device_.handle(), &id_), "capture_end");
}

bool DeviceGraph::launch_timed(double* times) {
  if (!device_.times_graphs()) return false;
  const oct_status status = device_.table().graph_launch_timed(device_.handle(), id_, lane_, times);
  if (status == OCT_UNSUPPORTED) return false;
  device_.check(status, "graph_launch_timed");
  return true;
}

DeviceGraph::~DeviceGraph() {
  if (id_ >= 0) {
    device_.table().graph_destroy(device_.handle(), id_);
  } else {  // an exception came between: what was recorded is dropped, so that the lanes can be used
    int unused = -1;
    if (device_.table().capture_end(device_.handle(), &unused) == OCT_OK)
      device_.table().graph_destroy(device_.handle(), unused);
  }
}

}  // namespace octachoron
