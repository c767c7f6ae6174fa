#pragma once
/// `plan`: what a run would need, from its programs alone: memory of a rank by class, bytes by axis, and the verdict of
/// the verifier on the whole grid.
#include <map>
#include <string>

#include "core/report/process_memory.h"

namespace octachoron {

/// Bytes that one rank sends in one optimiser step, by axes and purpose, as a ring moves them (oct_comm_counters).
struct PlannedTraffic {
  std::int64_t calls = 0, bytes = 0;
};
using TrafficTable = std::map<std::string, PlannedTraffic>;  ///< "tp (activation)" -> calls and bytes
enum class Traffic { by_group, by_kind };              ///< by_kind: "all_gather tp (activation)"
TrafficTable planned_traffic(const StepProgram& program, const ProcessGrid& grid, Traffic traffic = Traffic::by_group);

struct PlanReport {
  ProcessGrid grid;
  std::int64_t parameters = 0, local_parameters = 0;
  RankPrograms programs;
  ProcessMemory process;
  TrafficTable traffic;
  std::int64_t operations = 0;
  std::string symmetry;                ///< axes along which all ranks do the same
  std::vector<std::string> problems;   ///< of the verifier; empty: free of races and deadlocks
};

/// Builds, plans and verifies both programs, at all corners of the grid; reports the memory and traffic of rank 0.
PlanReport plan_run(const Parameters& parameters, const Target& target, SaveBytes save_bytes);

std::string plan_text(const PlanReport& report);
std::string plan_json(const PlanReport& report);

}  // namespace octachoron
