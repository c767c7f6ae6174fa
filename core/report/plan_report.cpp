#include "core/report/plan_report.h"

#include <cstdio>

#include "core/base/text.h"
#include "core/report/grid_roles.h"
#include "core/report/tables.h"

namespace octachoron {

namespace {

std::int64_t ring_bytes(const Operation& operation, int size) {
  const std::int64_t vector = message_view(operation).bytes();
  switch (operation.op) {
    case OCT_ALL_GATHER:
    case OCT_REDUCE_SCATTER: return vector * (size - 1);  // (n-1)/n of the whole vector of n parts
    case OCT_ALL_REDUCE: return 2 * vector * (size - 1) / size;
    case OCT_RECEIVE: return 0;
    default: return vector;
  }
}

}  // namespace

TrafficTable planned_traffic(const StepProgram& program, const ProcessGrid& grid, Traffic by) {
  TrafficTable table;
  for (const Call& call : program.schedule.calls)
    for (const Operation& operation : program.segments[call.segment].operations) {
      if (!is_communication(operation.op)) continue;
      const std::string kind = by == Traffic::by_kind ? std::string(name(operation.op)) + " " : "";
      PlannedTraffic& traffic = table[kind + to_string(operation.peers.axes) + " (" + operation.peers.purpose + ")"];
      ++traffic.calls;
      traffic.bytes += ring_bytes(operation, grid.group_size(operation.peers.axes, operation.peers.block));
    }
  return table;
}

PlanReport plan_run(const Parameters& parameters, const Target& target, SaveBytes save_bytes) {
  const std::int64_t libraries = resident_bytes();  // before programs of many ranks are built, which a run does not do
  PlanReport report;
  report.grid = target.grid;
  GridRoles roles =
      grid_roles(target.grid, [&](int rank) { return build_rank_programs(parameters, target, rank); });
  GridVerdict verdict = verify_roles(target.grid, roles);
  report.problems = std::move(verdict.problems);
  report.symmetry = std::move(verdict.symmetry);
  report.programs = std::move(roles.programs.front());
  report.process = process_memory(report.programs, *target.device, libraries, save_bytes);
  report.parameters = report.programs.set.global_elements();
  report.local_parameters = report.programs.set.local_elements();
  report.traffic = planned_traffic(report.programs.training.program, target.grid);
  for (const Call& call : report.programs.training.program.schedule.calls)
    report.operations += std::int64_t(report.programs.training.program.segments[call.segment].operations.size());
  return report;
}

std::string plan_text(const PlanReport& report) {
  std::string out = text("grid: ", to_string(report.grid), ", ", report.grid.size(), " ranks\n", "parameters: ",
                         report.parameters, ", on a rank before sharding over dp: ", report.local_parameters, "\n");
  out += "memory of a rank:\n" + memory_text(report.programs.training.plan, report.programs.arena_bytes(), report.process);
  out += "communication of a rank in a step:\n";
  if (report.traffic.empty()) out += "  none\n";
  for (const auto& [group, traffic] : report.traffic) {
    char line[120];
    std::snprintf(line, sizeof line, "  %-20s %5lld calls %12s\n", group.c_str(), static_cast<long long>(traffic.calls),
                  size_text(double(traffic.bytes)).c_str());
    out += line;
  }
  out += text("program: ", report.operations, " operations a step\n");
  if (report.problems.empty())
    return out + "verified: free of races and deadlocks on the whole grid" +
           (report.symmetry.empty() ? "" : " (all ranks along " + report.symmetry + " do the same)") + "\n";
  out += "NOT verified:\n";
  for (const std::string& problem : report.problems) out += "  " + problem + "\n";
  return out;
}

std::string plan_json(const PlanReport& report) {
  const ProcessGrid& grid = report.grid;
  std::string out = text("{\"grid\":{\"dp\":", grid[Axis::dp], ",\"tp\":", grid[Axis::tp], ",\"pp\":", grid[Axis::pp],
                         ",\"cp\":", grid[Axis::cp], "},\"ranks\":", grid.size(), ",\"parameters\":", report.parameters,
                         ",\"local_parameters\":", report.local_parameters, ",\"arena_bytes\":",
                         report.programs.arena_bytes(), ",\"host_bytes\":", report.programs.host_bytes(),
                         ",\"libraries_bytes\":", report.process.libraries, ",\"checkpoint_bytes\":",
                         report.process.checkpoint, ",\"copies_bytes\":", report.process.copies, ",\"process_bytes\":", report.process.total(), ",\"memory\":{");
  const MemoryPlan& plan = report.programs.training.plan;
  for (int c = 0; c < kMemoryClasses; ++c)
    out += text(c ? "," : "", "\"", name(MemoryClass(c)), "\":", plan.by_class[c]);
  out += "},\"traffic\":{";
  const char* separator = "";
  for (const auto& [group, traffic] : report.traffic) {
    out += text(separator, "\"", group, "\":{\"calls\":", traffic.calls, ",\"bytes\":", traffic.bytes, "}");
    separator = ",";
  }
  return out + text("},\"operations\":", report.operations, ",\"verified\":", report.problems.empty() ? "true" : "false", "}\n");
}

}  // namespace octachoron
