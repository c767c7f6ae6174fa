#include <cstdio>
#include <cstring>
#include <set>

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

/// A comm plugin is made only with its device and all ranks there. \param devices those found usable so far
std::string comm_text(const PluginLibrary& library, const std::set<std::string>& devices) {
  const std::string device = library.table<oct_comm_table>().device;
  if (device == "any") return "    with any device\n";
  if (devices.count(device) == 0)
    fail(ExitStatus::environment, "it works with device ", device, " only (which is not usable here); see there");
  return "    with device " + device + "\n";
}

/// Who asked doctor needs no advice to do so.
std::string without_advice(std::string reason) {
  const std::size_t at = reason.find("; run 'octachoron doctor'");
  return at == std::string::npos ? reason : reason.substr(0, at);
}

/// Devices come before what needs them. \param devices gets the name of a usable one
void print_plugin(const FoundPlugin& found, std::set<std::string>& devices) {
  std::printf("  %-9s %-12s ", name(found.family), found.name.c_str());
  try {
    const PluginLibrary library(found.file, found.family);
    std::string more;
    if (found.family == OCT_DEVICE) more = device_text(library);  // what makes one may fail
    if (found.family == OCT_DEVICE) devices.insert(found.name);
    if (found.family == OCT_COMM) more = comm_text(library, devices);
    std::printf("usable, version %s, built with %s\n%s", library.info().version, library.info().build, more.c_str());
  } catch (const Error& error) {
    std::printf("not usable: %s\n", without_advice(error.what()).c_str());
  }
}

}  // namespace

ExitStatus run_doctor() {
  std::printf("octachoron %s, built with %s, plugin ABI %d.%d\nplugins:\n", version(), compiler(),
              OCT_ABI_MAJOR, OCT_ABI_MINOR);
  const auto plugins = list_plugins("");
  std::set<std::string> devices;
  for (const FoundPlugin& plugin : plugins) print_plugin(plugin, devices);
  if (plugins.empty()) std::printf("  none; looked in:\n");
  for (const std::string& folder : plugin_folders(""))
    if (plugins.empty()) std::printf("    %s\n", folder.c_str());
  return ExitStatus::done;
}

}  // namespace octachoron
