#include <cstdio>
#include <cstring>

#include "app/commands.h"
#include "core/base/version.h"
#include "core/plugin/device.h"

namespace octachoron {

namespace {

std::string device_text(const PluginLibrary& library) {
  const auto silent = [](void*, std::int32_t, const char*) {};
  const auto alone = [](void*, const void* send, void* receive, std::size_t bytes) {
    std::memcpy(receive, send, bytes);
    return OCT_OK;
  };
  const oct_host host{sizeof(oct_host), nullptr, 0, 1, 0, 1, silent, alone};
  Device device(library, host, {sizeof(oct_device_options), 1, 0, nullptr});
  const oct_device_properties properties = device.properties();
  char line[256];
  std::snprintf(line, sizeof line, "    %s, memory %.1f GiB, graphs: %s\n", properties.description,
                double(properties.memory_bytes) / (1 << 30), properties.has_graphs ? "yes" : "no");
  return line;
}

void print_plugin(const FoundPlugin& found) {
  std::printf("  %-9s %-12s ", name(found.family), found.name.c_str());
  try {
    const PluginLibrary library(found.file, found.family);
    const std::string device = found.family == OCT_DEVICE ? device_text(library) : "";  // what makes one may fail
    std::printf("usable, version %s, built with %s\n%s", library.info().version, library.info().build, device.c_str());
  } catch (const Error& error) {
    std::printf("not usable: %s\n", error.what());
  }
}

}  // namespace

ExitStatus run_doctor() {
  std::printf("octachoron %s, built with %s, plugin ABI %d.%d\nplugins:\n", version(), compiler(),
              OCT_ABI_MAJOR, OCT_ABI_MINOR);
  const auto plugins = list_plugins("");
  for (const FoundPlugin& plugin : plugins) print_plugin(plugin);
  if (plugins.empty()) std::printf("  none; looked in:\n");
  for (const std::string& folder : plugin_folders(""))
    if (plugins.empty()) std::printf("    %s\n", folder.c_str());
  return ExitStatus::done;
}

}  // namespace octachoron
