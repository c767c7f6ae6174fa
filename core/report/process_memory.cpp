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

}  // namespace

std::int64_t resident_bytes() {
  return status_bytes("VmRSS:");
}

std::int64_t peak_resident_bytes() {
  return status_bytes("VmHWM:");
}

ProcessMemory process_memory(const RankPrograms& programs, std::int64_t libraries, SaveBytes save_bytes) {
  return {programs.arena_bytes() + programs.host_bytes(), libraries, save_bytes(largest_shard(programs.set))};
}

}  // namespace octachoron
