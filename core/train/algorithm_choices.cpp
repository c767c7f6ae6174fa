#include "core/train/algorithm_choices.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/parallel/together.h"

namespace octachoron {

namespace {

constexpr const char* kFile = "/tuning.json";

void write(const std::string& output, const std::string& choices) {
  std::error_code error;
  std::filesystem::create_directories(output, error);
  std::ofstream file(output + kFile);
  file << choices;
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
    if (world.rank() == 0 && !kept.empty() && !std::filesystem::exists(output + kFile)) write(output, kept);
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
