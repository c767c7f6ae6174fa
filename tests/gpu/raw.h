#pragma once
/// A device used through its table, with operands as bytes: for what cannot be seen through doubles.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/plugin/abi.h"

namespace octachoron::gpu {

/// One operand: a description and the bytes of its rows. No rows: absent.
struct Bytes {
  oct_matrix matrix = {};
  std::vector<unsigned char> data;
};

/// Values of a C++ type as an operand without gaps.
template <class V>
Bytes bytes(oct_dtype type, std::int64_t rows, std::int64_t columns, const std::vector<V>& values) {
  if (std::int64_t(values.size()) != rows * columns) throw std::logic_error("values do not fill the operand");
  const auto* begin = reinterpret_cast<const unsigned char*>(values.data());
  return {{type, 0, rows, columns, columns}, {begin, begin + values.size() * sizeof(V)}};
}
template <class V>
std::vector<V> values(const Bytes& b) {
  const auto* begin = reinterpret_cast<const V*>(b.data.data());
  return {begin, begin + b.data.size() / sizeof(V)};
}

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

  /// Runs once; all operands are read back.
  void run(const oct_operation& operation, std::vector<Bytes>* operands) const;

 private:
  const oct_plugin& plugin_;
  const oct_device_table& table_;
  oct_device* device_ = nullptr;
  oct_lane* lane_ = nullptr;
};

oct_operation describe(oct_op op, const std::vector<oct_matrix>& operands,
                       const std::vector<std::int64_t>& i = {}, const std::vector<double>& f = {});
oct_operation describe(oct_op op, const std::vector<Bytes>& operands, const std::vector<std::int64_t>& i = {},
                       const std::vector<double>& f = {});

}  // namespace octachoron::gpu
