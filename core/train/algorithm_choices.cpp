#include "core/train/algorithm_choices.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/parallel/together.h"

namespace octachoron {

namespace {

constexpr const char* kFile = "/tuning.json";

// The lines of a file of choices, each by what it is the choice for.
std::map<std::string, std::string> lines_of(const std::string& choices) {
  std::map<std::string, std::string> lines;
  std::istringstream text(choices);
  for (std::string line; std::getline(text, line);) {
    const std::size_t choice = line.find("\"algorithm\"");
    if (choice == std::string::npos) continue;
    if (line.back() == ',') line.pop_back();
    lines[line.substr(0, choice)] = line;
  }
  return lines;
}

void write(const std::string& output, const std::map<std::string, std::string>& lines) {
  std::error_code error;
  std::filesystem::create_directories(output, error);
  std::ofstream file(output + kFile);
  const char* between = "[\n";
  for (const auto& [what, line] : lines) file << std::exchange(between, ",\n") << line;
  file << "\n]\n";
  file.close();
  if (file.fail())
    fail(ExitStatus::data, "the choices of algorithms that the checkpoint keeps cannot be written to '", output, kFile,
         "' (the disk may be full); free space");
}

}  // namespace

std::string read_choices(const std::string& output) {
  std::ifstream file(output + kFile);
  std::ostringstream contents;
  if (file) contents << file.rdbuf();
  return contents.str();
}

void restore_choices(const std::string& output, const std::string& kept, const World& world) {
  together(world, [&] {
    if (world.rank() != 0 || kept.empty()) return true;
    auto lines = lines_of(read_choices(output));
    for (const auto& [what, line] : lines_of(kept)) lines[what] = line;
    write(output, lines);
    return true;
  });
}

void prepare_operations(const RankPrograms& programs, Device& device, const ProcessGrid& grid, const World& world) {
  const auto prepare = [&] {
    const Coordinate at = grid.coordinate(world.rank());
    programs.for_each([&](const char*, const PlannedProgram& planned) {
      for (const Segment& segment : planned.program.segments)
        for (const Operation& operation : segment.operations)
          if (!is_communication(operation.op)) device.prepare(describe_for_device(operation, at));
    });
    return true;
  };
  together(world, [&] { return world.rank() != 0 || prepare(); });
  together(world, [&] { return world.rank() == 0 || prepare(); });
}

}  // namespace octachoron
