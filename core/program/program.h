#pragma once
/// A training step written down: buffers, operations in segments, and a schedule of calls to segments.
///
/// Program order is the order of the calls and, inside a call, of the operations. A lane executes its own
/// operations in that order; different lanes are ordered only by waits. Waits are derived (waits.h), never
/// written by a layer. One program serves all ranks of a role: peers are axis coordinates, and an attribute
/// that depends on the rank says how.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/parallel/process_grid.h"
#include "core/plugin/abi.h"
#include "core/program/view.h"

namespace octachoron {

/// One instance for the step, one per activation slot, or one per micro-batch.
enum class Scope : std::uint8_t { step, slot, micro_batch };

/// What the bytes are for: `plan` reports memory by class. Host buffers live in pinned memory, all others in
/// the arena.
enum class MemoryClass : std::uint8_t {
  weight,
  master,
  moment,
  gradient,
  activation,
  workspace,
  scale,
  communication,
  peer,
  host
};
inline constexpr int kMemoryClasses = 10;
const char* name(MemoryClass memory);

struct Buffer {
  std::string name;
  std::int64_t bytes = 0;
  Scope scope = Scope::slot;
  MemoryClass memory = MemoryClass::activation;
  bool persistent = false;  ///< holds a value before the step and keeps it after: never shares memory
  bool kept = false;        ///< its value must survive until the end of the step (read by the host)
};

enum class Access : std::uint8_t { read, write, update };  ///< update: read and written

struct Operand {
  View view;  ///< may be absent
  Access access = Access::read;
};
constexpr bool reads(Access access) {
  return access != Access::write;
}
constexpr bool writes(Access access) {
  return access != Access::read;
}

/// Collectives: all ranks along `axes`. Send and receive: the rank `shift` away along the one axis
/// (periodic). Groups are made per axes *and purpose*: communication of different purposes never matches.
struct Peers {
  AxisSet axes;
  std::string purpose;
  int shift = 0;  ///< of a broadcast: the place of its root in the group
  int block = 0;  ///< collectives: only that many neighbours along the one axis; 0: all
};

/// Attribute `i[attribute]` grows by `stride[a]` with each step along Axis a.
struct RankDependence {
  int attribute = -1;  ///< -1: none
  std::array<std::int64_t, kAxes> stride{};

  RankDependence() = default;
  RankDependence(int attribute, Axis axis, std::int64_t along) : attribute(attribute) { stride[int(axis)] = along; }
};

struct Operation {
  oct_op op{};
  int lane = 0;
  std::string label;  ///< for communication: the tensor's global name, equal at all ends of the message
  std::vector<Operand> operands;  ///< in the order of operations.h; communication: in, out
  std::array<std::int64_t, 8> i{};
  std::array<double, 4> f{};
  Peers peers;
  oct_reduction reduction = OCT_SUM;
  RankDependence rank_dependence;
  View workspace;  ///< scratch, absent if the device needs none
  std::string cast;  ///< of a cast fused into it: the label of the OCT_QUANTIZE that it stands for; empty: none
};
const char* name(oct_op op);

/// A cast to FP8, by an OCT_QUANTIZE or fused into the operation that makes what it casts.
struct TensorCast {
  const std::string* tensor = nullptr;  ///< its label
  View x;                               ///< absent where it is not kept
  View scale, row, amax, counters;      ///< amax and counters may be absent
};
/// The cast that the operation is or carries.
std::optional<TensorCast> find_cast(const Operation& operation);
constexpr bool is_communication(oct_op op) {
  return op >= OCT_ALL_GATHER;
}
constexpr bool is_point_to_point(oct_op op) {
  return op == OCT_SEND || op == OCT_RECEIVE;
}

/// Calls function(view, access) for each operand that is there, and for the workspace (as a write).
template <class Function>
void for_each_access(const Operation& operation, Function function) {
  for (const Operand& operand : operation.operands)
    if (!operand.view.absent()) function(operand.view, operand.access);
  if (!operation.workspace.absent()) function(operation.workspace, Access::write);
}

/// The operation as the plugin ABI describes it, for the rank at `at`.
oct_operation describe_for_device(const Operation& operation, const Coordinate& at);
/// What a communication moves: the view of the element count in oct_message.
const View& message_view(const Operation& operation);

inline constexpr int kSameCall = -1;
/// Operation `consumer` of a call starts after operation `producer` of `call` is complete.
struct Wait {
  int consumer = 0, producer = 0, call = kSameCall;
};

struct Segment {
  std::string name;
  std::vector<Operation> operations;
  std::vector<Wait> waits;  ///< inside the segment: the same in each call, so they can be captured with it
};

struct Call {
  int segment = 0, slot = 0, micro_batch = 0;
  std::vector<Wait> waits;  ///< on earlier calls
};

struct Schedule {
  int slots = 1, micro_batches = 1;
  std::vector<Call> calls;
};

/// Lanes are data: a name and a priority for the device. At most kMaxLanes.
struct Lane {
  std::string name;
  int priority = 0;
};
inline constexpr int kMaxLanes = 16;

struct StepProgram {
  std::vector<Lane> lanes;
  std::vector<Buffer> buffers;
  std::vector<Segment> segments;
  Schedule schedule;

  int instances_per_buffer() const;
  /// How many of them the scope of `buffer` uses.
  int instances(int buffer) const;
  /// Number of the instance of `buffer` that a call uses.
  int instance(int buffer, const Call& call) const;
  int find_buffer(const std::string& name) const;  ///< -1 if there is none
};

/// Event number n of a lane is the completion of its n-th operation, so what an operation knows to be
/// complete is one number per lane: a vector clock. Events, happens-before, readers of a range and progress
/// are all Clocks.
using Clock = std::array<int, kMaxLanes>;
inline void join(Clock& into, const Clock& other) {
  for (int lane = 0; lane < kMaxLanes; ++lane)
    into[lane] = into[lane] < other[lane] ? other[lane] : into[lane];
}

struct Issue {  ///< one operation of one call
  const Operation* operation = nullptr;
  int call = 0, index = 0;  ///< index inside the segment
  int sequence = 0;         ///< place in its lane, from 1
  Clock waits{};            ///< the events it waits for
  int lane() const { return operation->lane; }
};

struct Expansion {  ///< the program with its calls written out; it refers to the program
  std::vector<Issue> issues;
  std::vector<int> first_of_call;
  std::array<std::vector<int>, kMaxLanes> lanes;  ///< issues of each lane
  int issue_of(int lane, int event) const { return lanes[lane][event - 1]; }
};

Expansion expand(const StepProgram& program, std::span<const Call> calls);
inline Expansion expand(const StepProgram& program) {
  return expand(program, program.schedule.calls);
}

/// For each issue: the events that are past when it completes, its own included. One pass, O(issues x lanes).
std::vector<Clock> happens_before(const Expansion& expansion);

/// "'layers.0.mlp.fc1.dweight' (gemm, lane compute, backward of micro-batch 2)"
std::string describe(const StepProgram& program, const Issue& issue);

}  // namespace octachoron
