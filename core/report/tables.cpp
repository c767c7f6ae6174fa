#include "core/report/tables.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "core/base/text.h"

namespace octachoron {

namespace {

// "layers.3.mlp.fc1" -> 3, "mlp.fc1"; of others -1 and the whole name
std::pair<int, std::string> split_layer(const std::string& module) {
  const std::string prefix = "layers.";
  if (!module.starts_with(prefix)) return {-1, module};
  const std::size_t dot = module.find('.', prefix.size());
  return {std::stoi(module.substr(prefix.size(), dot - prefix.size())), module.substr(dot)};
}

// "0,2-5", in ascending order
std::string ranges(const std::vector<int>& numbers) {
  std::string list;
  for (std::size_t i = 0, j; i < numbers.size(); i = j) {
    for (j = i + 1; j < numbers.size() && numbers[j] == numbers[j - 1] + 1;) ++j;
    list += text(list.empty() ? "" : ",", numbers[i]);
    if (j > i + 1) list += text("-", numbers[j - 1]);
  }
  return list;
}

}  // namespace

std::string precision_table_text(const std::vector<PrecisionRow>& rows) {
  struct Line {
    std::string module, pass, answer;
    std::vector<int> layers;
  };
  std::vector<Line> lines;  // in order of appearance; layers that answer alike share one
  std::map<std::string, std::size_t> layers_of;
  for (const PrecisionRow& row : rows) {
    const auto [layer, module] = split_layer(row.module);
    const std::string answer = row.format + "  " + row.reason;
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
      return line.module == module && line.pass == row.pass && line.answer == answer;
    });
    Line& line = same != lines.end() ? *same : lines.emplace_back(Line{module, row.pass, answer, {}});
    if (layer < 0) continue;
    line.layers.push_back(layer);
    ++layers_of[module + row.pass];
  }
  std::string table;
  for (const Line& line : lines) {
    const bool all = line.layers.size() == layers_of[line.module + line.pass];
    const std::string name = line.layers.empty() ? line.module : text("layers.", all ? "*" : ranges(line.layers), line.module);
    char formatted[200];
    std::snprintf(formatted, sizeof formatted, "  %-36s %s\n", text(name, "  ", line.pass).c_str(), line.answer.c_str());
    table += formatted;
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
  const std::string copies =
      process.copies > 0 ? text(", the state's copy while it is saved ", size_text(double(process.copies))) : "";
  return table + text("  arena", process.has_arena ? " " : ", on the device, ", size_text(double(arena_bytes)),
                      " (live at the peak ", size_text(double(plan.live_bytes)), ", without sharing ",
                      size_text(double(plan.apart_bytes)), ")\n", "  process ", size_text(double(process.total())),
                      process.has_arena ? " (arena and host buffers " : " (host buffers ", size_text(double(process.buffers)),
                      ", libraries as measured here ", size_text(double(process.libraries)), ", checkpoint ",
                      size_text(double(process.checkpoint)), copies, ")\n");
}

}  // namespace octachoron
