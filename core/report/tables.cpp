#include "core/report/tables.h"

#include <cstdio>
#include <map>

#include "core/base/text.h"

namespace octachoron {

namespace {

// "layers.3.mlp.fc1" -> "layers.*.mlp.fc1"
std::string without_layer(const std::string& module) {
  const std::string prefix = "layers.";
  if (!module.starts_with(prefix)) return module;
  return prefix + "*" + module.substr(module.find('.', prefix.size()));
}

}  // namespace

std::string precision_table_text(const std::vector<PrecisionRow>& rows) {
  // What one module answers for all passes and layers: (format, reason) -> passes, in order of appearance.
  std::map<std::string, std::map<std::string, int>> layers;
  std::vector<std::pair<std::string, std::string>> order;
  for (const PrecisionRow& row : rows) {
    const std::string module = without_layer(row.module) + "  " + row.pass, answer = row.format + "  " + row.reason;
    if (layers[module][answer]++ == 0) order.push_back({module, answer});
  }
  std::string table;
  for (const auto& [module, answer] : order) {
    char line[200];
    std::snprintf(line, sizeof line, "  %-36s %s\n", module.c_str(), answer.c_str());
    table += line;
  }
  return table;
}

std::string size_text(double bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) bytes /= 1024, ++unit;
  char size[32];
  std::snprintf(size, sizeof size, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
  return size;
}

std::string memory_text(const MemoryPlan& plan, std::int64_t arena_bytes, const ProcessMemory& process) {
  std::string table;
  for (int c = 0; c < kMemoryClasses; ++c) {
    if (plan.by_class[c] == 0) continue;
    char line[80];
    std::snprintf(line, sizeof line, "  %-14s %12s\n", name(MemoryClass(c)), size_text(double(plan.by_class[c])).c_str());
    table += line;
  }
  return table + text("  arena ", size_text(double(arena_bytes)), " (live at the peak ", size_text(double(plan.live_bytes)),
                      ", without sharing ", size_text(double(plan.apart_bytes)), ")\n", "  process ",
                      size_text(double(process.total())), " (arena and host buffers ", size_text(double(process.buffers)),
                      ", libraries as measured here ", size_text(double(process.libraries)), ", checkpoint ",
                      size_text(double(process.checkpoint)), ")\n");
}

}  // namespace octachoron
