#pragma once
/// C++ face of a device plugin. All calls throw Error where the plugin reports one.
#include <span>
#include <string>

#include "core/plugin/library.h"

namespace octachoron {

class Device {
 public:
  Device(PluginLibrary library, const oct_host& host, const oct_device_options& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const PluginLibrary& library() const { return library_; }
  std::string name() const { return library_.info().name; }
  oct_device_properties properties() const;
  const oct_device_table& table() const { return library_.table<oct_device_table>(); }
  oct_device* handle() const { return handle_; }

  oct_support query(const oct_operation& operation) const;
  int prepare(const oct_operation& operation);
  void enqueue(int id, void* const* pointers, oct_lane* lane) {
    check(table().enqueue(handle_, id, pointers, lane), "enqueue");
  }
  void copy(void* to, const void* from, std::size_t bytes, oct_lane* lane) {
    check(table().copy(handle_, to, from, bytes, lane), "copy");
  }
  void stamp(oct_lane* lane, double* seconds) { check(table().stamp(handle_, lane, seconds), "stamp"); }
  /// The clock of stamp() now. Waits for all that the lane has before it.
  double clock(oct_lane* lane) {
    double seconds = 0;
    stamp(lane, &seconds);
    synchronize();
    return seconds;
  }
  /// Names what is enqueued on the lane up to span_end() for profilers and, unless `begin` is null, has its
  /// times written, which may be read after synchronize(). A device without spans stamps both sides: what it
  /// waits for before the work then counts. \param lane may be null where `begin` is
  void span_begin(oct_lane* lane, const char* name, double* begin, double* end) {
    if (has_spans_)
      check(table().span_begin(handle_, lane, name, begin, end), "span_begin");
    else if (begin != nullptr)
      stamp(lane, begin);
  }
  /// \param end as given to span_begin()
  void span_end(oct_lane* lane, double* end) {
    if (has_spans_)
      check(table().span_end(handle_, lane), "span_end");
    else if (end != nullptr)
      stamp(lane, end);
  }
  /// Whether spans of a capture can have times in its launches.
  bool times_graphs() const { return has_spans_ && library_.has(&oct_device_table::graph_launch_timed); }
  void synchronize() { check(table().synchronize(handle_), "synchronize"); }
  /// Empty if nothing went wrong since the last call.
  /// \param status if given: its kind; OCT_DEVICE_ERROR is a fault of the hardware or its driver
  std::string poll_error(oct_status* status = nullptr);
  void check(oct_status status, const char* what) const {
    if (status != OCT_OK) library_.check(status, what);
  }

 private:
  PluginLibrary library_;
  oct_device* handle_ = nullptr;
  bool has_spans_;
};

/// Memory, lanes and events of a device, released with the object. The device must outlive them.
class DeviceMemory {
 public:
  DeviceMemory(Device& device, oct_memory_kind kind, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  Device* device_;
  oct_memory_kind kind_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

class DeviceLane {
 public:
  DeviceLane(Device& device, const std::string& name, int priority);
  ~DeviceLane();
  DeviceLane(DeviceLane&& other) noexcept;
  DeviceLane(const DeviceLane&) = delete;
  oct_lane* handle() const { return handle_; }

 private:
  Device* device_;
  oct_lane* handle_ = nullptr;
};

class DeviceEvent {
 public:
  explicit DeviceEvent(Device& device);
  ~DeviceEvent();
  DeviceEvent(DeviceEvent&& other) noexcept;
  DeviceEvent(const DeviceEvent&) = delete;
  void record(oct_lane* lane) {
    device_->check(device_->table().event_record(device_->handle(), handle_, lane), "event_record");
  }
  void wait(oct_lane* lane) const {
    device_->check(device_->table().event_wait(device_->handle(), handle_, lane), "event_wait");
  }
  bool past() const;
  void synchronize() const;

 private:
  Device* device_;
  oct_event* handle_ = nullptr;
};

/// What was enqueued on lanes between the constructor and finish(), as one thing to launch.
class DeviceGraph {
 public:
  /// Begins to record instead of to run. \param lanes the first is the one it will be launched on
  DeviceGraph(Device& device, std::span<oct_lane* const> lanes);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  void finish();
  void launch() { device_.check(device_.table().graph_launch(device_.handle(), id_, lane_), "graph_launch"); }
  /// The same, and has the times of all spans of the capture written: of number k at times[2 k] and
  /// times[2 k + 1], which may be read after synchronize(). \returns false, with nothing launched, if they
  /// cannot be had
  bool launch_timed(double* times);
  /// The lane it is launched on.
  oct_lane* lane() const { return lane_; }

 private:
  Device& device_;
  oct_lane* lane_;
  int id_ = -1;
};

}  // namespace octachoron
