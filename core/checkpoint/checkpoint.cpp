#include "core/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstdio>

namespace octachoron {

void refuse_checksum(const std::string& file, const std::string& dataset) {
  throw CheckpointDamaged(text("the checkpoint '", file, "' is damaged (the checksum of ", dataset,
                               " is not that of its values); use an older one"));
}

std::string checkpoint_name(std::int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "step-%08lld.h5", static_cast<long long>(step));
  return name;
}

std::int64_t step_of_name(const std::string& file_name) {
  constexpr std::size_t kPrefix = 5, kSuffix = 3;  // "step-", ".h5"
  if (file_name.size() < kPrefix + 8 + kSuffix || file_name.size() > kPrefix + 18 + kSuffix) return -1;
  const std::string digits = file_name.substr(kPrefix, file_name.size() - kPrefix - kSuffix);
  if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) return -1;
  const std::int64_t step = std::stoll(digits);
  return checkpoint_name(step) == file_name ? step : -1;
}

}  // namespace octachoron
