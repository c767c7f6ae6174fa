#pragma once
/// What stands in a folder of checkpoints.
#include <cstdint>
#include <string>
#include <vector>

namespace octachoron {

inline constexpr const char* kTemporarySuffix = ".tmp";

struct FolderEntry {
  std::string path;
  std::int64_t step = 0;
  bool leftover = false;  ///< the temporary file of a save that did not end
};

/// Checkpoints and leftovers by name, newest first, each leftover after the checkpoint of its step. A missing
/// folder is empty. \throws Error(data) if the folder cannot be read
std::vector<FolderEntry> folder_entries(const std::string& directory);

}  // namespace octachoron
