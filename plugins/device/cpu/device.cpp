#include "plugins/device/cpu/device.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "core/plugin/export.h"
#include "plugins/device/common/check.h"
#include "plugins/device/cpu/machine.h"
#include "plugins/device/cpu/onednn.h"
#include "plugins/device/cpu/prepared.h"

namespace octachoron::cpu {

using device_common::checked;
using device_common::operand_name;
using device_common::operation_name;

Device::Device(const oct_host& host, const oct_device_options& options)
    : threads_(options.threads), local_size_(std::max(1, host.local_size)) {
  if (threads_ < 1 || threads_ > 1024) {
    throw std::invalid_argument("threads is " + std::to_string(threads_) + ", not in 1 .. 1024");
  }
  const Instructions instructions = choose_instructions();
  find_ = instructions.find;
  instructions_ = instructions.name;
}

Device::~Device() {
  lanes_.clear();
}

oct_device_properties Device::properties() const {
  oct_device_properties p{};
  const std::string version = onednn_version();
  const std::string library = version.empty() ? "" : ", " + version + " (" + onednn_isa() + ")";
  std::snprintf(p.description, sizeof p.description, "%.60s, %d thread%s, %s%s", processor_model().c_str(),
                threads_, threads_ == 1 ? "" : "s", instructions_.c_str(), library.c_str());
  p.memory_bytes = physical_memory() / local_size_;
  p.is_host = 1;
  return p;
}

void Device::query(const oct_operation& operation, oct_support* out) const {
  out->supported = 0;
  out->deterministic = 1;
  out->workspace_bytes = 0;
  out->flops = out->bytes = 0;
  out->reason[0] = 0;
  try {
    const oct_operation clean = checked(operation);
    const device_common::Cost c = device_common::cost(clean);
    out->workspace_bytes = planned_workspace(clean, threads_);
    out->flops = c.flops;
    out->bytes = c.bytes;
    out->supported = 1;
  } catch (const std::exception& error) {
    std::snprintf(out->reason, sizeof out->reason, "%s", error.what());
  }
}

std::int32_t Device::prepare(const oct_operation& operation) {
  const oct_operation clean = checked(operation);
  std::string key(sizeof clean, '\0');
  std::memcpy(key.data(), &clean, sizeof clean);
  const auto known = ids_.find(key);
  if (known != ids_.end()) return known->second;
  const auto id = std::int32_t(entries_.size());
  entries_.push_back({clean, cpu::prepare(clean, find_, threads_)});
  ids_.emplace(key, id);
  return id;
}

void Device::enqueue(std::int32_t id, void* const* pointers, Lane& lane) const {
  if (id < 0 || std::size_t(id) >= entries_.size())
    throw std::invalid_argument("id " + std::to_string(id) + " was not prepared");
  const Entry& entry = entries_[std::size_t(id)];
  const oct_operation& operation = entry.operation;
  Command command;
  command.kind = Command::Kind::run;
  command.prepared = entry.prepared.get();
  for (int k = 0; k < operation.operands; ++k) {
    if (operation.operand[k].rows == 0) continue;  // absent, whatever the pointer
    if (pointers[k] == nullptr && !device_common::is_empty(operation, k)) {
      throw std::invalid_argument(std::string(operation_name(operation)) + ": the pointer of " +
                                  operand_name(operation, k) + " is null");
    }
    if (operation.op == OCT_GEMM && (k == 2 || k == 3) &&
        reinterpret_cast<std::uintptr_t>(pointers[k]) % 16 != 0) {
      throw std::invalid_argument(std::string(operation_name(operation)) + ": the pointer of " +
                                  operand_name(operation, k) + " is not a multiple of 16");
    }
    command.pointers[std::size_t(k)] = pointers[k];
  }
  command.pointers[kWorkspace] = pointers[operation.operands];
  lane.enqueue(command);
}

Lane* Device::create_lane(const std::string& name) {
  progress_.push_back(std::make_unique<Progress>());
  lanes_.push_back(std::make_unique<Lane>(*progress_.back(), name, [this](const std::string& text) {
    const std::lock_guard lock(error_mutex_);
    if (error_.empty()) error_ = text;
  }));
  return lanes_.back().get();
}

void Device::destroy_lane(Lane* lane) {
  std::erase_if(lanes_, [lane](const std::unique_ptr<Lane>& each) { return each.get() == lane; });
}

void Device::record(Event& event, Lane& lane) {
  Command command;
  command.kind = Command::Kind::mark;
  event.position = lane.enqueue(command);
  event.progress = &lane.progress();
}

void Device::wait(const Event& event, Lane& lane) {
  if (event.progress == nullptr || event.progress == &lane.progress()) return;  // in order already
  Command command;
  command.kind = Command::Kind::wait;
  command.progress = event.progress;
  command.position = event.position;
  lane.enqueue(command);
}

void Device::synchronize() const {
  for (const auto& lane : lanes_) lane->progress().wait_for(lane->enqueued());
}

std::string Device::take_error() {
  const std::lock_guard lock(error_mutex_);
  return std::exchange(error_, {});
}

}  // namespace octachoron::cpu
