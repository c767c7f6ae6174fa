#pragma once
/// A device used through its table, without copies of operands back and forth.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/plugin/abi.h"

namespace octachoron::gpu {

class Device {
 public:
  /// \throws std::runtime_error with the plugin's reason
  explicit Device(const oct_plugin& plugin);
  ~Device();
  Device(const Device&) = delete;

  const oct_device_table& table() const { return table_; }
  oct_device* handle() const { return device_; }
  oct_lane* lane() const { return lane_; }
  void check(oct_status status, const char* what) const;
  oct_support support(const oct_operation& operation) const;
  std::int32_t prepare(const oct_operation& operation) const;
  void* allocate(std::int32_t kind, std::size_t bytes) const;
  void release(std::int32_t kind, void* memory) const { table_.release(device_, kind, memory); }
  void synchronize() const;

 private:
  const oct_plugin& plugin_;
  const oct_device_table& table_;
  oct_device* device_ = nullptr;
  oct_lane* lane_ = nullptr;
};

oct_operation describe(oct_op op, const std::vector<oct_matrix>& operands,
                       const std::vector<std::int64_t>& i = {}, const std::vector<double>& f = {});

}  // namespace octachoron::gpu
