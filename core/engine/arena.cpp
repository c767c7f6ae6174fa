#include "core/engine/arena.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace octachoron {

namespace {

constexpr std::int64_t kGuardBytes = 4096;
constexpr unsigned char kGuard = 0xA5;
constexpr unsigned char kPoison = 0xFF;  // NaN in F32, F64, BF16, E4M3 and E5M2
constexpr std::int64_t kStagingBytes = std::int64_t(32) << 20;

}  // namespace

Arena::Arena(Device& device, std::int64_t bytes, std::int64_t host_bytes)
    : device_of_(device),
      is_host_(device.properties().is_host != 0),
      bytes_(bytes),
      host_bytes_(host_bytes),
      device_(device, OCT_MEMORY_DEVICE, std::size_t(bytes + kGuardBytes)),
      host_(device, OCT_MEMORY_PINNED, std::size_t(host_bytes + kGuardBytes)) {
  std::memset(host_at(0), 0, std::size_t(host_bytes));
  std::memset(host_at(host_bytes), kGuard, kGuardBytes);
  if (is_host_) std::memset(device_at(bytes), kGuard, kGuardBytes);
}

std::byte* Arena::staging() {
  if (!staging_) staging_.emplace(device_of_, OCT_MEMORY_PINNED, std::size_t(kStagingBytes));
  return staging_->data();
}

void Arena::transfer(void* to, const void* from, std::size_t bytes) {
  if (!lane_) lane_.emplace(device_of_, "host", 0);
  device_of_.copy(to, from, bytes, lane_->handle());
  device_of_.synchronize();
}

void Arena::read(const std::byte* from, std::int64_t bytes, void* to) {
  if (is_host_) {
    std::memcpy(to, from, std::size_t(bytes));
    return;
  }
  for (std::int64_t done = 0; done < bytes; done += kStagingBytes) {
    const auto part = std::size_t(std::min(bytes - done, kStagingBytes));
    transfer(staging(), from + done, part);
    std::memcpy(static_cast<std::byte*>(to) + done, staging(), part);
  }
}

void Arena::write(const void* from, std::int64_t bytes, std::byte* to) {
  if (is_host_) {
    std::memcpy(to, from, std::size_t(bytes));
    return;
  }
  for (std::int64_t done = 0; done < bytes; done += kStagingBytes) {
    const auto part = std::size_t(std::min(bytes - done, kStagingBytes));
    std::memcpy(staging(), static_cast<const std::byte*>(from) + done, part);
    transfer(to + done, staging(), part);
  }
}

void Arena::clear(std::byte* at, std::int64_t bytes) {
  if (is_host_) {
    std::memset(at, 0, std::size_t(bytes));
    return;
  }
  std::memset(staging(), 0, std::size_t(std::min(bytes, kStagingBytes)));
  for (std::int64_t done = 0; done < bytes; done += kStagingBytes)
    transfer(at + done, staging(), std::size_t(std::min(bytes - done, kStagingBytes)));
}

void Arena::poison(std::int64_t begin) {
  ensure(is_host_, "only a host device can be poisoned");
  std::memset(device_at(begin), kPoison, std::size_t(bytes_ - begin));
}

bool Arena::guard_intact() const {
  const auto intact = [](const std::byte* guard) {
    for (std::int64_t i = 0; i < kGuardBytes; ++i)
      if (guard[i] != std::byte{kGuard}) return false;
    return true;
  };
  return (!is_host_ || intact(device_.data() + bytes_)) && intact(host_.data() + host_bytes_);
}

}  // namespace octachoron
