#include "core/checkpoint/retention.h"

#include <filesystem>

#include "core/checkpoint/folder.h"
#include "core/checkpoint/load.h"

namespace octachoron {
namespace {

bool is_complete(const std::string& path, const std::string& run_id) {
  try {
    return CheckpointFile(path).header().run_id == run_id;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string remove_older(const std::string& directory, const std::string& run_id, std::int64_t step,
                         std::int64_t keep) {
  std::string warnings;
  std::int64_t kept = 1;  // the new one
  for (const FolderEntry& entry : folder_entries(directory)) {
    if (entry.step > step || (entry.step == step && !entry.leftover)) continue;
    if (!entry.leftover && (keep == 0 || !is_complete(entry.path, run_id) || ++kept <= keep)) continue;
    std::error_code error;
    std::filesystem::remove(entry.path, error);
    if (error)
      warnings += text("the old checkpoint '", entry.path, "' cannot be removed (", error.message(), ")\n");
  }
  return warnings;
}

}  // namespace octachoron
