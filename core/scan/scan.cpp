#include "core/scan/scan.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/config/availability.h"
#include "core/config/suggest.h"
#include "core/config/values.h"
#include "core/parallel/first_ranks.h"
#include "core/scan/measure.h"

namespace octachoron {

std::vector<int> parse_degrees(const std::string& list) {
  std::vector<int> degrees;
  const auto refuse = [&](const char* why) {
    fail(ExitStatus::usage, "--degrees ", list, " cannot be scanned (", why,
         "); write --degrees 1,2,4, for example");
  };
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const auto number = parse_integer(list.substr(begin, end - begin));
    if (!number || *number < 1 || *number > std::numeric_limits<int>::max())
      refuse("a degree is a whole number of ranks, 1 or more");
    if (!degrees.empty() && *number <= degrees.back()) refuse("degrees ascend, and each stands once");
    degrees.push_back(int(*number));
    begin = end + 1;
  }
  if (degrees.size() < 2) refuse("one degree has nothing to be held against");
  return degrees;
}

Axis parse_scan_axis(const std::string& name_given) {
  const std::vector<std::string> names = {"tp", "cp", "pp", "dp"};
  if (std::find(names.begin(), names.end(), name_given) == names.end())
    fail(ExitStatus::usage, "--axis ", name_given, " is no axis of the grid (there are ", join(names, ", "),
         "); did you mean ", nearest_name(name_given, names), "?");
  for (const Availability& row : availability_table())
    if (row.key == "grid." + name_given && row.available == std::vector<std::string>{"1"})
      fail(ExitStatus::usage, "--axis ", name_given, " is not available in this version (a later one brings ",
           row.feature, "); scan tp or dp");
  for (int axis = 0; axis < kAxes; ++axis)
    if (name_given == name(Axis(axis))) return Axis(axis);
  fail(ExitStatus::internal, "the grid has no axis ", name_given);
}

void refuse_scan(const Parameters& parameters, int ranks) {
  const GridParameters& grid = parameters.grid;
  const int needed = grid.dp * grid.tp * grid.pp * grid.cp;
  if (needed > ranks)
    fail(ExitStatus::usage, "the grid dp=", grid.dp, " tp=", grid.tp, " pp=", grid.pp, " cp=", grid.cp,
         " needs ", needed, " ranks (the launch has ", ranks, "); start with mpirun -np ", needed,
         " or leave the degree out");
  if (parameters.example.pattern != ExamplePattern::none)
    fail(ExitStatus::usage,
         "this file cannot be scanned (example.pattern is set, and an example is no model); ", "remove it");
}

Measure measure_on(const World& world, int steps) {
  return [&world, steps](const Parameters& parameters) {
    Observations seen;
    const GridParameters& grid = parameters.grid;
    on_first_ranks(world, grid.dp * grid.tp * grid.pp * grid.cp,
                   [&](const World& part) { seen = measure_degree(parameters, part, steps); });
    return seen;
  };
}

Scan scan_degrees(const World& world, Axis axis, const std::vector<Parameters>& runs, int rounds,
                  const Measure& measure) {
  std::vector<Observations> seen(runs.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t run = 0; run < runs.size(); ++run) {
      std::vector<ObservedStep> steps = std::move(seen[run].steps);
      seen[run] = measure(runs[run]);
      seen[run].steps.insert(seen[run].steps.end(), steps.begin(), steps.end());
    }
  Scan scan{.axis = name(axis),
            .name = runs.front().run.name,
            .precision = runs.front().backend.precision,
            .rounds = rounds,
            .degrees = {},
            .verdict = {}};
  if (world.rank() != 0) return scan;
  for (const Observations& each : seen) scan.degrees.push_back(degree_of(each, axis));
  scan.verdict = judge_scan(scan.axis, scan.degrees);
  return scan;
}

}  // namespace octachoron
