#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "core/plugin/library.h"

namespace octachoron {

namespace fs = std::filesystem;

namespace {

/// "comm-mpi.so" -> (comm, "mpi"); nothing for other files.
std::optional<FoundPlugin> parse_file_name(const fs::path& file) {
  if (file.extension() != ".so") return std::nullopt;
  const std::string stem = file.stem().string();
  for (oct_family family : {OCT_DEVICE, OCT_COMM, OCT_PRECISION}) {
    const std::string prefix = std::string(name(family)) + "-";
    if (stem.starts_with(prefix) && stem.size() > prefix.size())
      return FoundPlugin{family, stem.substr(prefix.size()), file.string()};
  }
  return std::nullopt;
}

std::string join(const std::vector<std::string>& parts, const char* separator) {
  std::string result;
  for (const std::string& part : parts) result += (result.empty() ? "" : separator) + part;
  return result;
}

}  // namespace

std::vector<std::string> plugin_folders(const std::string& plugin_path) {
  std::vector<std::string> folders;
  std::istringstream stream(plugin_path);
  for (std::string folder; std::getline(stream, folder, ':');)
    if (!folder.empty()) folders.push_back(folder);
  // bin/octachoron has its plugins in lib/octachoron, both in the build tree and below an installation
  // prefix.
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  if (!program.empty())
    folders.push_back((program.parent_path().parent_path() / "lib" / "octachoron").string());
  return folders;
}

std::vector<FoundPlugin> list_plugins(const std::string& plugin_path) {
  std::vector<FoundPlugin> found;
  for (const std::string& folder : plugin_folders(plugin_path)) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      const auto plugin = parse_file_name(at->path());
      // The first folder wins, as in find_plugin().
      if (plugin && std::none_of(found.begin(), found.end(), [&](const FoundPlugin& other) {
            return other.family == plugin->family && other.name == plugin->name;
          }))
        found.push_back(*plugin);
    }
  }
  std::sort(found.begin(), found.end(), [](const FoundPlugin& a, const FoundPlugin& b) {
    return a.family != b.family ? a.family < b.family : a.name < b.name;
  });
  return found;
}

std::string find_plugin(oct_family family, const std::string& name_or_path, const std::string& plugin_path) {
  if (name_or_path.find('/') != std::string::npos) return name_or_path;
  const std::vector<std::string> folders = plugin_folders(plugin_path);
  const std::string file = std::string(name(family)) + "-" + name_or_path + ".so";
  for (const std::string& folder : folders) {
    std::error_code ignored;
    if (fs::exists(fs::path(folder) / file, ignored)) return (fs::path(folder) / file).string();
  }
  std::vector<std::string> known;
  for (const FoundPlugin& plugin : list_plugins(plugin_path))
    if (plugin.family == family) known.push_back(plugin.name);
  fail(ExitStatus::environment, "there is no ", name(family), " plugin '", name_or_path, "' (looked for ",
       file, " in ", join(folders, ", "), "); use ", known.empty() ? "a path" : "one of " + join(known, ", "),
       " or set backend.plugin_path");
}

}  // namespace octachoron
