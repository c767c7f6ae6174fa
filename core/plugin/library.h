#pragma once
/// Loading of plugins: one file, checked, never unloaded.
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/plugin/abi.h"

namespace octachoron {

const char* name(oct_family family);  ///< "device", "comm", "precision"

/// A loaded plugin (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE). Cheap to copy.
class PluginLibrary {
 public:
  /// \throws Error(environment) in one sentence: what could not be loaded, why, what to do
  PluginLibrary(const std::string& file, oct_family expected);

  const oct_plugin& info() const { return *info_; }
  const std::string& file() const { return file_; }

  template <class Table>
  const Table& table() const {
    return *static_cast<const Table*>(info_->table);
  }
  /// Whether the plugin's table is long enough to hold `member`, and it is not null.
  template <class Table, class Member>
  bool has(Member Table::*member) const {
    const auto& table = this->table<Table>();
    const auto end =
        reinterpret_cast<const char*>(&(table.*member) + 1) - reinterpret_cast<const char*>(&table);
    return table.struct_size >= std::size_t(end) && table.*member != nullptr;
  }
  /// \throws Error naming the plugin, `what` and the plugin's own text. Comm errors lead to exit 6, wrong
  /// arguments to 2, internal errors to 1, others to 3
  void check(oct_status status, const char* what) const;

 private:
  std::string file_;
  const oct_plugin* info_ = nullptr;
};

/// Where plugins are looked for: `plugin_path` (folders by ':'), then the build tree or prefix of the running
/// program.
std::vector<std::string> plugin_folders(const std::string& plugin_path);

/// The file of a plugin given by NAME ([a-z0-9-]+) or path (contains '/').
/// \throws Error(environment) naming the folders searched and the plugins found there
std::string find_plugin(oct_family family, const std::string& name_or_path, const std::string& plugin_path);

/// (family, file) of every plugin in the folders, in order of name.
struct FoundPlugin {
  oct_family family;
  std::string name, file;
};
std::vector<FoundPlugin> list_plugins(const std::string& plugin_path);

}  // namespace octachoron
