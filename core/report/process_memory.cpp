#include "core/report/process_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace octachoron {

namespace {

std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return std::stoll(line.substr(key.size())) * 1024;
  return 0;
}

// The largest range of a rank is at most its shard of a bucket.
std::int64_t largest_shard(const ParameterSet& set) {
  std::int64_t largest = 0;
  for (const Bucket& bucket : set.buckets) largest = std::max(largest, set.shard_elements(bucket));
  return largest;
}

std::int64_t state_bytes(const StepProgram& program) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers)
    if (buffer.memory == MemoryClass::master || buffer.memory == MemoryClass::moment) bytes += buffer.bytes;
  return bytes;
}

}  // namespace

std::int64_t resident_bytes() {
  return status_bytes("VmRSS:");
}

std::int64_t peak_resident_bytes() {
  return status_bytes("VmHWM:");
}

ProcessMemory process_memory(const RankPrograms& programs, const Device& device, std::int64_t libraries,
                             SaveBytes save_bytes) {
  ProcessMemory memory;
  memory.has_arena = device.properties().is_host != 0;
  memory.buffers = programs.host_bytes() + (memory.has_arena ? programs.arena_bytes() : 0);
  if (!memory.has_arena) memory.copies = state_bytes(programs.training.program);
  memory.libraries = libraries;
  memory.checkpoint = save_bytes(largest_shard(programs.set));
  return memory;
}

}  // namespace octachoron
