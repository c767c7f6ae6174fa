#include "core/program/program.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/plugin/fused_cast.h"

namespace octachoron {

const char* name(MemoryClass memory) {
  static constexpr const char* names[] = {"weight",    "master", "moment",        "gradient", "activation",
                                          "workspace", "scale",  "communication", "peer",     "host"};
  return names[int(memory)];
}

const char* name(oct_op op) {
  static constexpr const char* device[] = {"?",
                                           "fill",
                                           "copy",
                                           "add",
                                           "gemm",
                                           "column_sum",
                                           "quantize",
                                           "norm",
                                           "norm_backward",
                                           "gelu",
                                           "gelu_backward",
                                           "swiglu",
                                           "swiglu_backward",
                                           "rope",
                                           "attention",
                                           "attention_backward",
                                           "embedding",
                                           "embedding_backward",
                                           "position",
                                           "position_backward",
                                           "loss_statistics",
                                           "loss",
                                           "sum_of_squares",
                                           "clip",
                                           "adamw",
                                           "amax",
                                           "update_scale",
                                           "current_scale",
                                           "transpose"};
  static constexpr const char* network[] = {"all_gather", "reduce_scatter", "all_reduce",
                                            "broadcast",  "send",           "receive"};
  static_assert(std::size(device) == OCT_DEVICE_OPS && std::size(network) == OCT_OPS_END - OCT_ALL_GATHER);
  if (is_communication(op)) return op < OCT_OPS_END ? network[op - OCT_ALL_GATHER] : "?";
  return op > 0 && op < OCT_DEVICE_OPS ? device[op] : "?";
}

std::optional<TensorCast> find_cast(const Operation& operation) {
  const auto at = [&](int k) { return operation.operands[k].view; };
  if (operation.op == OCT_QUANTIZE) return TensorCast{&operation.label, at(0), at(1), at(2), at(4), at(5)};
  const FusedCast cast = fused_cast(operation.op);
  if (!cast.is_in(int(operation.operands.size()))) return std::nullopt;
  return TensorCast{&operation.cast,     at(cast.wide), at(cast.scale()), at(cast.row()), at(cast.amax()),
                    at(cast.counters())};
}

oct_operation describe_for_device(const Operation& operation, const Coordinate& at) {
  ensure(operation.operands.size() <= OCT_MAX_OPERANDS, operation.label, " has too many operands");
  oct_operation description{};
  description.struct_size = sizeof description;
  description.op = operation.op;
  description.operands = std::int32_t(operation.operands.size());
  for (std::size_t k = 0; k < operation.operands.size(); ++k) {
    const View& view = operation.operands[k].view;
    if (view.absent()) continue;
    description.operand[k] = {view.dtype, 0, view.rows, view.columns, view.pitch};
  }
  std::copy(operation.i.begin(), operation.i.end(), description.i);
  std::copy(operation.f.begin(), operation.f.end(), description.f);
  if (const RankDependence& change = operation.rank_dependence; change.attribute >= 0)
    for (int axis = 0; axis < kAxes; ++axis) description.i[change.attribute] += change.stride[axis] * at[axis];
  return description;
}

const View& message_view(const Operation& operation) {
  // All ranks have what a broadcast gives, only the root has what it takes.
  const bool counts_result =
      operation.op == OCT_REDUCE_SCATTER || operation.op == OCT_RECEIVE || operation.op == OCT_BROADCAST;
  return counts_result ? operation.operands.back().view : operation.operands.front().view;
}

int StepProgram::instances_per_buffer() const {
  return std::max(schedule.slots, schedule.micro_batches);
}

int StepProgram::instances(int buffer) const {
  const Scope scope = buffers[buffer].scope;
  return scope == Scope::slot ? schedule.slots : scope == Scope::micro_batch ? schedule.micro_batches : 1;
}

int StepProgram::instance(int buffer, const Call& call) const {
  const Scope scope = buffers[buffer].scope;
  return buffer * instances_per_buffer() + (scope == Scope::slot          ? call.slot
                                            : scope == Scope::micro_batch ? call.micro_batch
                                                                          : 0);
}

int StepProgram::find_buffer(const std::string& name) const {
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].name == name) return int(i);
  return -1;
}

Expansion expand(const StepProgram& program, std::span<const Call> calls) {
  Expansion expansion;
  auto& issues = expansion.issues;
  for (int c = 0; c < int(calls.size()); ++c) {
    const Segment& segment = program.segments[calls[c].segment];
    const int first = int(issues.size());
    expansion.first_of_call.push_back(first);
    for (int i = 0; i < int(segment.operations.size()); ++i) {
      auto& lane = expansion.lanes[segment.operations[i].lane];
      lane.push_back(first + i);
      issues.push_back({&segment.operations[i], c, i, int(lane.size()), {}});
    }
    for (const auto* waits : {&segment.waits, &calls[c].waits})
      for (const Wait& wait : *waits) {
        const int call = wait.call == kSameCall ? c : wait.call;
        Issue& consumer = issues[first + wait.consumer];
        const int producer = call <= c ? expansion.first_of_call[call] + wait.producer : int(issues.size());
        if (producer >= first + wait.consumer)  // the text is for this case only: there are many waits
          fail(ExitStatus::internal, "'", consumer.operation->label, "' (", name(consumer.operation->op),
               ", ", segment.name, ") waits for a later operation");
        int& event = consumer.waits[issues[producer].lane()];
        event = std::max(event, issues[producer].sequence);
      }
  }
  return expansion;
}

std::vector<Clock> happens_before(const Expansion& expansion) {
  std::vector<Clock> clocks(expansion.issues.size());
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    const Issue& issue = expansion.issues[i];
    const auto past = [&](int lane, int event) {
      if (event > 0) join(clocks[i], clocks[expansion.issue_of(lane, event)]);
    };
    past(issue.lane(), issue.sequence - 1);
    for (int lane = 0; lane < kMaxLanes; ++lane) past(lane, issue.waits[lane]);
    clocks[i][issue.lane()] = issue.sequence;
  }
  return clocks;
}

std::string describe(const StepProgram& program, const Issue& issue) {
  const Call& call = program.schedule.calls[issue.call];
  const Operation& operation = *issue.operation;
  return text("'", operation.label, "' (", name(operation.op), ", lane ", program.lanes[operation.lane].name,
              ", ", program.segments[call.segment].name, " of micro-batch ", call.micro_batch, ")");
}

}  // namespace octachoron
