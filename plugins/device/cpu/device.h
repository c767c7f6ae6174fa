#pragma once
/// The device: its lanes, events and prepared operations. One host thread calls it.
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/plugin/abi.h"
#include "plugins/device/cpu/lane.h"

namespace octachoron::cpu {

/// The latest record: a position of a lane.
struct Event {
  const Progress* progress = nullptr;
  std::uint64_t position = 0;
};

class Device {
 public:
  Device(const oct_host& host, const oct_device_options& options);
  ~Device();
  Device(const Device&) = delete;

  oct_device_properties properties() const;
  void query(const oct_operation& operation, oct_support* out) const;
  std::int32_t prepare(const oct_operation& operation);
  void enqueue(std::int32_t id, void* const* pointers, Lane& lane) const;

  Lane* create_lane(const std::string& name);
  void destroy_lane(Lane* lane);
  static void record(Event& event, Lane& lane);
  static void wait(const Event& event, Lane& lane);
  void synchronize() const;
  /// The first error since the last call; empty: none.
  std::string take_error();

 private:
  struct Entry {
    oct_operation operation;
    std::unique_ptr<Prepared> prepared;
  };

  int threads_, local_size_;
  FindKernel find_;
  std::string instructions_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::int32_t> ids_;  // by the bytes of the checked description
  std::vector<std::unique_ptr<Progress>> progress_;    // kept to the end: events refer to it
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::mutex error_mutex_;
  std::string error_;
};

}  // namespace octachoron::cpu
