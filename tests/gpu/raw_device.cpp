#include "tests/gpu/raw_device.h"

#include <algorithm>

namespace octachoron::gpu {

Device::Device(const oct_plugin& plugin)
    : plugin_(plugin), table_(*static_cast<const oct_device_table*>(plugin.table)) {
  oct_host host{};
  host.struct_size = sizeof host;
  host.size = host.local_size = 1;
  const oct_device_options options = {sizeof options, 2, 0, nullptr};
  check(table_.create(&host, &options, &device_), "create");
  check(table_.lane_create(device_, "test", 0, &lane_), "lane_create");
}

Device::~Device() {
  table_.lane_destroy(device_, lane_);
  table_.destroy(device_);
}

void Device::check(oct_status status, const char* what) const {
  if (status != OCT_OK) throw std::runtime_error(std::string(what) + ": " + plugin_.last_error());
}

oct_support Device::support(const oct_operation& operation) const {
  oct_support support{};
  support.struct_size = sizeof support;
  check(table_.query(device_, &operation, &support), "query");
  return support;
}

std::int32_t Device::prepare(const oct_operation& operation) const {
  std::int32_t id = -1;
  check(table_.prepare(device_, &operation, &id), "prepare");
  return id;
}

void* Device::allocate(std::int32_t kind, std::size_t bytes) const {
  void* memory = nullptr;
  check(table_.allocate(device_, kind, bytes, &memory), "allocate");
  return memory;
}

void Device::synchronize() const {
  check(table_.synchronize(device_), "synchronize");
  char text[512] = {};
  if (table_.poll_error(device_, text, sizeof text) != OCT_OK) throw std::runtime_error(text);
}

oct_operation describe(oct_op op, const std::vector<oct_matrix>& operands, const std::vector<std::int64_t>& i,
                       const std::vector<double>& f) {
  oct_operation d{};
  d.struct_size = sizeof d;
  d.op = op;
  d.operands = std::int32_t(operands.size());
  std::copy(operands.begin(), operands.end(), d.operand);
  std::copy(i.begin(), i.end(), d.i);
  std::copy(f.begin(), f.end(), d.f);
  return d;
}

}  // namespace octachoron::gpu
