#pragma once
/// The memory of a run's programs, and how the host reaches it.
#include <optional>

#include "core/plugin/device.h"

namespace octachoron {

/// One block of device memory and one of pinned memory, shared by the programs of a run.
class Arena {
 public:
  /// \param bytes, host_bytes the largest of the plans. Guard bytes stand behind both.
  Arena(Device& device, std::int64_t bytes, std::int64_t host_bytes);

  /// Whether the host may use addresses of the device.
  bool is_host() const { return is_host_; }
  std::byte* device_at(std::int64_t offset) const { return device_.data() + offset; }
  std::byte* host_at(std::int64_t offset) const { return host_.data() + offset; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t host_bytes() const { return host_bytes_; }

  /// Copies `bytes` at an address of the device, of this arena, to or from memory of the host. While no lane runs.
  void read(const std::byte* from, std::int64_t bytes, void* to);
  void write(const void* from, std::int64_t bytes, std::byte* to);
  void clear(std::byte* at, std::int64_t bytes);  ///< to zero

  /// Sets [begin, bytes) of the arena to a signalling pattern (NaN in every float type). For tests. Host
  /// devices only.
  void poison(std::int64_t begin);
  /// Whether the guard bytes behind the arena are as they were made. Host devices only.
  bool guard_intact() const;

 private:
  std::byte* staging();
  void transfer(void* to, const void* from, std::size_t bytes);

  Device& device_of_;
  bool is_host_;
  std::int64_t bytes_, host_bytes_;
  DeviceMemory device_, host_;
  std::optional<DeviceMemory> staging_;  // of devices with memory of their own, from the first transfer on
  std::optional<DeviceLane> lane_;
};

}  // namespace octachoron
