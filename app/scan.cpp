#include "core/scan/scan.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "app/commands.h"
#include "app/ranks.h"
#include "core/checkpoint/stage.h"
#include "core/engine/backend.h"
#include "core/parallel/together.h"
#include "core/report/plan_report.h"
#include "core/train/session.h"

namespace octachoron {

namespace {

constexpr int kRounds = 3, kSteps = 5;

// The degree wins over --set, which wins over the file.
Parameters read_degree(const CommandLine& line, int degree) {
  const std::string key = "grid." + line.axis + "=";
  CommandLine own = line;
  std::erase_if(own.overrides, [&](const std::string& set) { return set.starts_with(key); });
  own.overrides.push_back(key + text(degree));
  return read_parameters(own, 0);
}

void plan(const Parameters& parameters) {
  DryBackend backend(parameters);
  const PlanReport report =
      plan_run(parameters, {grid_of(parameters), &backend.device(), &backend.recipe()}, save_bytes);
  ensure(report.problems.empty(), "the program is not verified (",
         report.problems.empty() ? "" : report.problems.front(), "); report this with the parameter file");
}

std::vector<Parameters> read_degrees(const CommandLine& line, const World& world) {
  std::vector<Parameters> runs;
  for (const int degree : parse_degrees(line.degrees)) try {
      runs.push_back(read_degree(line, degree));
      refuse_scan(runs.back(), world.size());
      if (world.rank() == 0) plan(runs.back());
    } catch (const Error& error) {
      fail(error.status(), line.axis, " = ", degree, ": ", error.what());
    }
  return runs;
}

void write(const std::string& file, const std::string& contents) {
  if (!file.empty() && !(std::ofstream(file) << contents << std::flush))
    fail(ExitStatus::usage, "the scan cannot be written to '", file,
         "' (it cannot be opened, or the disk is full); name a file in a writable folder");
}

}  // namespace

ExitStatus run_scan(const CommandLine& line) {
  return run_on_ranks([&](const World& world) {
    const Axis axis = parse_scan_axis(line.axis);
    const std::vector<Parameters> runs = together(world, [&] { return read_degrees(line, world); });
    const Scan scan = scan_degrees(world, axis, runs, kRounds, measure_on(world, kSteps));
    if (world.rank() == 0) std::fputs(scan_text(scan).c_str(), stdout);
    return together(world, [&] {
      if (world.rank() == 0) write(line.json, scan_json(scan));
      return ExitStatus::done;
    });
  });
}

}  // namespace octachoron
