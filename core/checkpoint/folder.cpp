#include "core/checkpoint/folder.h"

#include <algorithm>
#include <filesystem>

#include "core/checkpoint/checkpoint.h"

namespace octachoron {

std::vector<FolderEntry> folder_entries(const std::string& directory) {
  std::vector<FolderEntry> out;
  std::error_code error;
  std::filesystem::directory_iterator at(directory, error), end;
  if (error == std::errc::no_such_file_or_directory) return out;
  for (; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    const bool leftover = name.ends_with(kTemporarySuffix);
    if (leftover) name.resize(name.size() - std::string(kTemporarySuffix).size());
    const std::int64_t step = step_of_name(name);
    if (step >= 0) out.push_back({at->path().string(), step, leftover});
  }
  if (error)
    fail(ExitStatus::data, "the checkpoint folder '", directory, "' cannot be read (", error.message(),
         "); check the path and its permissions");
  std::sort(out.begin(), out.end(), [](const FolderEntry& a, const FolderEntry& b) {
    return a.step != b.step ? a.step > b.step : a.leftover < b.leftover;
  });
  return out;
}

}  // namespace octachoron
