#include "core/program/digest.h"

#include <bit>

#include "core/numerics/random.h"

namespace octachoron {

namespace {

// The canonical text: numbers end with a blank, names stand behind their length, and so do lists. So two
// programs with one text are one program.
class Canonical {
 public:
  template <class... Numbers>
  Canonical& numbers(Numbers... values) {
    ((text_ += std::to_string(std::int64_t(values)) + " "), ...);
    return *this;
  }
  Canonical& name(const std::string& name) {
    numbers(name.size());
    text_ += name;
    return *this;
  }
  template <class List>
  void list(const List& entries) {
    numbers(entries.size());
    for (const auto& entry : entries) add(entry);
  }

  void add(const Lane& lane) { name(lane.name).numbers(lane.priority); }
  void add(const Buffer& buffer) {
    const bool scratch = buffer.memory == MemoryClass::workspace;  // as much as the device asked for
    name(buffer.name)
        .numbers(scratch ? 0 : buffer.bytes, buffer.scope, buffer.memory, buffer.persistent, buffer.kept);
  }
  void add(const Operand& operand) {
    const View& view = operand.view;
    numbers(operand.access, view.buffer, view.offset, view.dtype, view.rows, view.columns, view.pitch);
  }
  void add(const Operation& operation) {
    const Peers& peers = operation.peers;
    const RankDependence& change = operation.rank_dependence;
    name(operation.label).numbers(operation.op, operation.lane, operation.reduction);
    name(operation.cast);
    name(peers.purpose).numbers(peers.axes.bits, peers.shift, peers.block);
    numbers(change.attribute);
    for (const std::int64_t stride : change.stride) numbers(stride);
    for (const std::int64_t attribute : operation.i) numbers(attribute);
    for (const double attribute : operation.f) numbers(std::bit_cast<std::int64_t>(attribute));
    list(operation.operands);
  }
  void add(const Wait& wait) { numbers(wait.consumer, wait.producer, wait.call); }
  void add(const Segment& segment) {
    name(segment.name);
    list(segment.operations);
    list(segment.waits);
  }
  void add(const Call& call) {
    numbers(call.segment, call.slot, call.micro_batch);
    list(call.waits);
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::uint64_t program_digest(const StepProgram& program) {
  Canonical canonical;
  canonical.list(program.lanes);
  canonical.list(program.buffers);
  canonical.list(program.segments);
  canonical.numbers(program.schedule.slots, program.schedule.micro_batches);
  canonical.list(program.schedule.calls);
  return hash64(canonical.text());
}

}  // namespace octachoron
