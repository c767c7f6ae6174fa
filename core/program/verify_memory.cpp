#include <algorithm>

#include "core/base/text.h"
#include "core/program/byte_classes.h"
#include "core/program/verify.h"

namespace octachoron {

namespace {

constexpr std::size_t kMaxProblems = 10;
constexpr int kNobody = -1;
constexpr int kBeforeStep = -2;  // in place of an issue: what is there when the step begins

struct Shadow {            // of bytes of one class
  int writer = kNobody;    // issue that wrote them last
  int owner = kNobody;     // buffer instance they were written as
  int resident = kNobody;  // persistent instance that has them for itself
  Clock readers{};         // since then: the last reader of each lane
};

struct Memory {  // the arena, or pinned memory
  ByteClasses classes;
  std::vector<Shadow> shadows;  // by class
};

// Where lists of boxes decided what conflicts, this looks at each row of bytes, at the address it has.
class MemoryCheck {
 public:
  MemoryCheck(const Role& role, const Placement& placement)
      : role_(role),
        program_(*role.program),
        placement_(placement),
        expansion_(expand(program_)),
        clocks_(happens_before(expansion_)),
        seen_(placement.size()) {}

  std::vector<std::string> run() {
    divide_memory();
    enter_before_step();
    for (int i = 0; i < int(clocks_.size()) && problems_.size() < kMaxProblems; ++i) {
      const Operation& operation = *expansion_.issues[i].operation;
      for_each_access(operation, [&](const View& view, Access) { check_address(i, view); });
      for_each_access(operation, [&](const View& view, Access access) {
        if (reads(access)) read(i, view);
      });
      for_each_access(operation, [&](const View& view, Access access) {
        if (writes(access)) write(i, view);
      });
    }
    if (problems_.size() < kMaxProblems) check_kept();
    return std::move(problems_);
  }

 private:
  void divide_memory() {
    for_each_instance(
        [&](const Buffer& buffer, int instance) { memory(buffer).classes.add(whole(buffer, instance)); });
    for (const Issue& issue : expansion_.issues)
      for_each_access(*issue.operation, [&](const View& view, Access) {
        const int instance = program_.instance(view.buffer, program_.schedule.calls[issue.call]);
        if (placement_[instance] >= 0) memory(program_.buffers[view.buffer]).classes.add(at(view, instance));
      });
    for (Memory& memory : memories_) {
      memory.classes.divide();
      memory.shadows.resize(memory.classes.size());
    }
  }

  // Persistent buffers have their bytes for themselves, and like what the host wrote they hold a value.
  void enter_before_step() {
    for_each_instance([&](const Buffer& buffer, int instance) {
      const bool host_input = buffer.memory == MemoryClass::host && !buffer.kept;
      if (!buffer.persistent && !host_input) return;
      visit(buffer, whole(buffer, instance), [&](Shadow& bytes) {
        if (buffer.persistent && bytes.resident >= 0)
          add(text(role_.name, ": the persistent buffers '", buffer.name, "' and '",
                   buffer_of(bytes.resident).name, "' share bytes"));
        if (buffer.persistent) bytes.resident = instance;
        bytes.writer = kBeforeStep;
        bytes.owner = instance;
      });
    });
  }

  // Once for each instance: it has an address, and that is not inside of what outlives the step.
  void check_address(int i, const View& view) {
    const int instance = instance_of(i, view);
    if (seen_[instance]) return;
    seen_[instance] = true;
    const Buffer& buffer = program_.buffers[view.buffer];
    if (placement_[instance] < 0) return report(i, view, "uses a buffer without an address");
    visit(buffer, whole(buffer, instance), [&](const Shadow& bytes) {
      if (bytes.resident >= 0 && bytes.resident != instance)
        report(i, view, "uses bytes of the persistent buffer '" + buffer_of(bytes.resident).name + "'");
    });
  }

  void read(int i, const View& view) {
    const int instance = instance_of(i, view);
    if (placement_[instance] < 0) return;
    const Issue& issue = expansion_.issues[i];
    visit(program_.buffers[view.buffer], at(view, instance), [&](Shadow& bytes) {
      if (bytes.writer == kNobody)
        report(i, view, "reads bytes that nothing has written");
      else if (bytes.owner != instance)
        report(i, view, "reads what was overwritten by " + writer(bytes, instance));
      else if (bytes.writer >= 0 && !past(bytes.writer, i))
        report(i, view, "reads without waiting for the writer " + who(bytes.writer));
      bytes.readers[issue.lane()] = issue.sequence;
    });
  }

  void write(int i, const View& view) {
    const int instance = instance_of(i, view);
    if (placement_[instance] < 0) return;
    visit(program_.buffers[view.buffer], at(view, instance), [&](Shadow& bytes) {
      check_write(i, view, bytes, instance);
      bytes.writer = i;
      bytes.owner = instance;
      bytes.readers = {};
    });
  }

  void check_write(int i, const View& view, const Shadow& bytes, int instance) {
    const Issue& issue = expansion_.issues[i];
    if (bytes.writer == i)
      report(i, view,
             "writes bytes that it writes twice, also as buffer '" + buffer_of(bytes.owner).name + "'");
    else if (bytes.writer >= 0 && !past(bytes.writer, i))
      report(i, view, "overwrites without waiting for the writer " + writer(bytes, instance));
    for (int lane = 0; lane < kMaxLanes; ++lane)
      if (bytes.readers[lane] > clocks_[i][lane])
        report(i, view,
               "overwrites without waiting for the reader " +
                   who(expansion_.issue_of(lane, bytes.readers[lane])) + as_buffer(bytes.owner, instance));
    // In place is what operands say, never what a placement does.
    if (bytes.readers[issue.lane()] == issue.sequence && bytes.owner >= 0 && bytes.owner != instance)
      report(i, view, "overwrites its own input, buffer '" + buffer_of(bytes.owner).name + "'");
  }

  // The host reads these after the step, all their bytes.
  void check_kept() {
    for_each_instance([&](const Buffer& buffer, int instance) {
      if (!buffer.kept || !seen_[instance]) return;
      visit(buffer, whole(buffer, instance), [&](const Shadow& bytes) {
        if (bytes.owner == instance) return;
        add(text(role_.name, ": buffer '", buffer.name, "' is kept for the host, but ",
                 bytes.owner < 0 ? "nothing has written some of its bytes"
                                 : "some of its bytes were last written by " + writer(bytes, instance)));
      });
    });
  }

  template <class Function>
  void for_each_instance(Function function) {  // that has an address
    for (int buffer = 0; buffer < int(program_.buffers.size()); ++buffer)
      for (int k = 0; k < program_.instances(buffer); ++k) {
        const int instance = buffer * program_.instances_per_buffer() + k;
        if (placement_[instance] >= 0) function(program_.buffers[buffer], instance);
      }
  }

  Memory& memory(const Buffer& buffer) { return memories_[buffer.memory == MemoryClass::host]; }
  Box whole(const Buffer& buffer, int instance) const {
    return {placement_[instance], 1, buffer.bytes, buffer.bytes};
  }
  Box at(const View& view, int instance) const {
    Box box = view.box();
    box.begin += placement_[instance];
    return box;
  }
  template <class Function>
  void visit(const Buffer& buffer, const Box& box, Function function) {
    Memory& in = memory(buffer);
    for (const int bytes : in.classes.classes_of(box)) function(in.shadows[bytes]);
  }

  bool past(int issue, int at) const {
    return clocks_[at][expansion_.issues[issue].lane()] >= expansion_.issues[issue].sequence;
  }
  int instance_of(int i, const View& view) const {
    return program_.instance(view.buffer, program_.schedule.calls[expansion_.issues[i].call]);
  }
  const Buffer& buffer_of(int instance) const {
    return program_.buffers[instance / program_.instances_per_buffer()];
  }

  std::string who(int issue) const { return describe(program_, expansion_.issues[issue]); }
  std::string writer(const Shadow& bytes, int instance) const {
    return (bytes.writer == kBeforeStep ? "what precedes the step" : who(bytes.writer)) +
           as_buffer(bytes.owner, instance);
  }
  std::string as_buffer(int owner, int instance) const {
    if (owner < 0 || owner == instance) return "";
    return " on buffer '" + buffer_of(owner).name + "'";
  }
  void report(int i, const View& view, const std::string& what) {
    add(text(role_.name, ": ", who(i), " on buffer '", program_.buffers[view.buffer].name, "' ", what));
  }
  void add(const std::string& problem) {
    if (problems_.size() < kMaxProblems &&
        std::find(problems_.begin(), problems_.end(), problem) == problems_.end())
      problems_.push_back(problem);
  }

  const Role& role_;
  const StepProgram& program_;
  const Placement& placement_;
  Expansion expansion_;
  std::vector<Clock> clocks_;
  std::vector<bool> seen_;  // by instance
  std::array<Memory, 2> memories_;
  std::vector<std::string> problems_;
};

bool fits(const View& view, const Buffer& buffer) {
  if (view.rows < 0 || view.columns < 0 || view.offset < 0) return false;
  if (view.rows > 1 && view.pitch < view.columns) return false;
  return view.elements() == 0 || view.box().end() <= buffer.bytes;
}

// What the other checks take for granted.
std::vector<std::string> malformed(const Role& role, const Placement& placement) {
  const StepProgram& program = *role.program;
  std::vector<std::string> problems;
  const auto complain = [&](const auto&... what) {
    if (problems.size() < kMaxProblems) problems.push_back(text(role.name, ": ", what...));
  };
  if (placement.size() != program.buffers.size() * program.instances_per_buffer())
    complain("the placement has ", placement.size(), " addresses, not one for each instance of ",
             program.buffers.size(), " buffers");
  for (const Segment& segment : program.segments)
    for (const Operation& operation : segment.operations) {
      if (operation.lane < 0 || operation.lane >= int(program.lanes.size()))
        complain("'", operation.label, "' (", name(operation.op), ", ", segment.name, ") is on lane ",
                 operation.lane, " of ", program.lanes.size());
      for_each_access(operation, [&](const View& view, Access) {
        if (view.buffer >= int(program.buffers.size()))
          complain("'", operation.label, "' (", name(operation.op), ", ", segment.name, ") names buffer ",
                   view.buffer, " of ", program.buffers.size());
        else if (!fits(view, program.buffers[view.buffer]))
          complain("'", operation.label, "' (", name(operation.op), ", ", segment.name,
                   ") reaches out of buffer '", program.buffers[view.buffer].name, "'");
      });
    }
  const Schedule& schedule = program.schedule;
  for (const Call& call : schedule.calls)
    if (call.segment < 0 || call.segment >= int(program.segments.size()) || call.slot < 0 ||
        call.slot >= schedule.slots || call.micro_batch < 0 || call.micro_batch >= schedule.micro_batches)
      complain("a call of segment ", call.segment, " uses slot ", call.slot, " of ", schedule.slots,
               " and micro-batch ", call.micro_batch, " of ", schedule.micro_batches);
  return problems;
}

}  // namespace

std::vector<std::string> verify_memory(const Role& role, const Placement& placement) {
  std::vector<std::string> problems = malformed(role, placement);
  return problems.empty() ? MemoryCheck(role, placement).run() : problems;
}

}  // namespace octachoron
