#pragma once
/// Proofs on programs, before anything runs. Only lanes, waits, views, accesses and peers are read: never how
/// they came about, and none of the code that derived them but expand() and happens_before().
#include <functional>

#include "core/program/memory.h"

namespace octachoron {

struct Role {  ///< what some ranks of the grid execute
  std::string name;
  const StepProgram* program = nullptr;
};
using RoleOf = std::function<int(const Coordinate&)>;

/// On one rank, at the planned addresses: conflicting accesses are ordered by happens-before, what is read
/// was written, and last by the buffer it is read as; persistent buffers overlap nothing and are read back as
/// themselves; kept buffers are intact at the end. Each problem names lane, operations and buffer. At most 10
/// problems.
std::vector<std::string> verify_memory(const Role& role, const Placement& placement);

/// How strictly the operations of a rank are held in order: all of them; its communication; each lane.
/// What completes under one completes under the next.
enum class Queues { serial, chained, lanes };
const char* name(Queues queues);

/// On all ranks, with rendezvous and no buffering: every message meets its counterpart (kind, bytes, label,
/// micro-batch) and all ranks reach the end. Matching does not depend on timing, so one simulated run decides
/// for all runs. Axes along which the role does not change are collapsed: all ranks along them do the same at
/// the same time.
struct OrderReport {
  std::vector<std::string> problems;
  int ranks = 0, simulated = 0;
  std::int64_t issues = 0;  ///< simulated
  std::string symmetry;     ///< the collapsed axes
};
OrderReport verify_order(const ProcessGrid& grid, const std::vector<Role>& roles, const RoleOf& role_of,
                         Queues queues, bool use_symmetry = true);

}  // namespace octachoron
