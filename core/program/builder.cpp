#include "core/program/builder.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/program/waits.h"

namespace octachoron {

int ProgramBuilder::lane(const std::string& name) {
  for (std::size_t i = 0; i < program_.lanes.size(); ++i)
    if (program_.lanes[i].name == name) return int(i);
  ensure(program_.lanes.size() < kMaxLanes, "more than ", kMaxLanes, " lanes");
  program_.lanes.push_back({name, name == "compute" ? 0 : 1});
  return int(program_.lanes.size()) - 1;
}

View ProgramBuilder::matrix(const std::string& name, DType type, std::int64_t rows, std::int64_t columns,
                            MemoryClass memory, Scope scope) {
  const int id = int(program_.buffers.size());
  ensure(names_.emplace(name, id).second, "two buffers are named '", name, "'");
  program_.buffers.push_back({name, rows * columns * size_of(type), scope, memory, false, false});
  return {id, 0, type, rows, columns, columns};
}

int ProgramBuilder::segment(const std::string& name) {
  program_.segments.push_back({name, {}, {}});
  return int(program_.segments.size()) - 1;
}

void ProgramBuilder::emit(Operation operation) {
  ensure(!program_.segments.empty(), "'", operation.label, "' is emitted outside a segment");
  if (!is_communication(operation.op)) add_workspace(operation);
  program_.segments.back().operations.push_back(std::move(operation));
}

void ProgramBuilder::add_workspace(Operation& operation) {
  const oct_support support = target_.device->query(describe_for_device(operation, {}));
  if (!support.supported)
    fail(ExitStatus::usage, "device '", target_.device->name(), "' cannot run '", operation.label, "' (",
         name(operation.op), ": ", support.reason, "); choose another device or precision");
  operation.workspace = View{};
  if (support.workspace_bytes == 0) return;
  // One buffer a lane, as large as the largest need: its users run one after another, and it is planned like
  // any other.
  View& shared = workspaces_[program_.lanes[operation.lane].name];
  if (shared.absent())
    shared = matrix("workspace." + program_.lanes[operation.lane].name, OCT_U8, 1, 0, MemoryClass::workspace,
                    Scope::step);
  std::int64_t& bytes = program_.buffers[shared.buffer].bytes;
  bytes = std::max(bytes, support.workspace_bytes);
  operation.workspace = shared;
  operation.workspace.columns = operation.workspace.pitch = support.workspace_bytes;
}

View ProgramBuilder::temporary(const std::string& name, DType type, std::int64_t rows, std::int64_t columns,
                               MemoryClass memory) {
  std::string unique = name;
  for (int n = 2; names_.count(unique); ++n) unique = text(name, ".", n);
  return matrix(unique, type, rows, columns, memory);
}

void ProgramBuilder::collective(oct_op op, const Peers& peers, int lane, const std::string& label,
                                const View& from, const View& to) {
  Operation operation{.op = op, .lane = lane, .label = label, .operands = {{from}, {to, Access::write}}};
  operation.peers = peers;
  emit(std::move(operation));
}

View ProgramBuilder::all_gather(const Peers& peers, int lane, const std::string& label, const View& from) {
  const int size = grid().group_size(peers.axes, peers.block);
  if (size == 1) return from;
  const View to =
      temporary(label + ".gathered", from.dtype, from.rows * size, from.columns, MemoryClass::communication);
  collective(OCT_ALL_GATHER, peers, lane, label, from, to);
  return to;
}

View ProgramBuilder::reduce_scatter(const Peers& peers, int lane, const std::string& label,
                                    const View& from) {
  const int size = grid().group_size(peers.axes, peers.block);
  if (size == 1) return from;
  ensure(from.rows % size == 0, label, ": ", from.rows, " rows over ", size, " ranks");
  const View to =
      temporary(label + ".reduced", from.dtype, from.rows / size, from.columns, MemoryClass::communication);
  collective(OCT_REDUCE_SCATTER, peers, lane, label, from, to);
  return to;
}

void ProgramBuilder::all_reduce(const Peers& peers, int lane, const std::string& label, const View& view,
                                oct_reduction reduction) {
  if (grid().group_size(peers.axes, peers.block) == 1) return;
  Operation operation{
      .op = OCT_ALL_REDUCE, .lane = lane, .label = label, .operands = {{view}, {view, Access::write}}};
  operation.peers = peers;
  operation.reduction = reduction;
  emit(std::move(operation));
}

void ProgramBuilder::set_slots(int slots, int micro_batches) {
  program_.schedule.slots = slots;
  program_.schedule.micro_batches = micro_batches;
}

void ProgramBuilder::call(int segment, int slot, int micro_batch) {
  program_.schedule.calls.push_back({segment, slot, micro_batch, {}});
}

StepProgram ProgramBuilder::finish(const std::function<void(StepProgram&)>& passes) {
  if (passes) passes(program_);
  derive_waits(program_);
  return std::move(program_);
}

}  // namespace octachoron
