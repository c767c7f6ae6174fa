#include "tests/program/toy.h"

#include <algorithm>
#include <bitset>

#include "core/base/text.h"

namespace octachoron::toy {

Writer::Writer(std::vector<std::string> lanes) {
  for (std::string& lane : lanes) program.lanes.push_back({std::move(lane), 0});
}

View Writer::buffer(const std::string& name, std::int64_t rows, std::int64_t columns, DType dtype,
                    Scope scope, MemoryClass memory) {
  program.buffers.push_back({name, rows * columns * size_of(dtype), scope, memory, false, false});
  return {int(program.buffers.size()) - 1, 0, dtype, rows, columns, columns};
}

View Writer::persistent(const std::string& name, std::int64_t rows, std::int64_t columns, DType dtype) {
  const View view = buffer(name, rows, columns, dtype, Scope::step, MemoryClass::weight);
  last_buffer().persistent = true;
  return view;
}

int Writer::segment(const std::string& name) {
  program.segments.push_back({name, {}, {}});
  return int(program.segments.size()) - 1;
}

Operation& Writer::operation(oct_op op, int lane, const std::string& label, std::vector<Operand> operands) {
  Operation& operation = program.segments.back().operations.emplace_back();
  operation.op = op;
  operation.lane = lane;
  operation.label = label;
  operation.operands = std::move(operands);
  return operation;
}

Operation& Writer::communicate(oct_op op, int lane, const std::string& label, Peers peers, View in,
                               View out) {
  Operation& result = operation(op, lane, label, {});
  if (!in.absent()) result.operands.push_back({in, Access::read});
  if (!out.absent()) result.operands.push_back({out, Access::write});
  result.peers = std::move(peers);
  return result;
}

void Writer::call(int segment, int slot, int micro_batch) {
  Schedule& schedule = program.schedule;
  schedule.calls.push_back({segment, slot, micro_batch, {}});
  schedule.slots = std::max(schedule.slots, slot + 1);
  schedule.micro_batches = std::max(schedule.micro_batches, micro_batch + 1);
}

void Writer::wait(int consumer, int producer) {
  program.segments.back().waits.push_back({consumer, producer, kSameCall});
}

StepProgram Writer::finish() {
  derive_waits(program);
  return program;
}

Placement place_apart(const StepProgram& program) {
  Placement placement;
  std::int64_t arena = 0, host = 0;
  for (const Buffer& buffer : program.buffers)
    for (int i = 0; i < program.instances_per_buffer(); ++i) {
      std::int64_t& end = buffer.memory == MemoryClass::host ? host : arena;
      placement.push_back(end);
      end += buffer.bytes;
    }
  return placement;
}

void without_each_wait(StepProgram& program, const std::function<void(const Wait&, const Call*)>& test) {
  const auto each = [&](std::vector<Wait>& waits, const Call* call) {
    for (std::size_t i = 0; i < waits.size(); ++i) {
      const Wait wait = waits[i];
      waits.erase(waits.begin() + i);
      test(wait, call);
      waits.insert(waits.begin() + i, wait);
    }
  };
  for (Segment& segment : program.segments) each(segment.waits, nullptr);
  for (Call& call : program.schedule.calls) each(call.waits, &call);
}

namespace {

using Bytes = std::bitset<512>;

struct Touched {  // by one issue
  int instance = 0;
  bool written = false;
  Bytes bytes;
};

std::vector<Touched> touched_by(const StepProgram& program, const Issue& issue) {
  std::vector<Touched> result;
  for_each_access(*issue.operation, [&](const View& view, Access access) {
    Touched touched{program.instance(view.buffer, program.schedule.calls[issue.call]), writes(access), {}};
    const std::int64_t size = size_of(view.dtype);
    for (std::int64_t row = 0; row < view.rows; ++row)
      for (std::int64_t byte = 0; byte < view.columns * size; ++byte)
        touched.bytes.set(view.offset + row * view.pitch * size + byte);
    result.push_back(touched);
  });
  return result;
}

bool conflict(const std::vector<Touched>& xs, const std::vector<Touched>& ys) {
  for (const Touched& x : xs)
    for (const Touched& y : ys)
      if (x.instance == y.instance && (x.written || y.written) && (x.bytes & y.bytes).any()) return true;
  return false;
}

}  // namespace

int races_by_search(const StepProgram& program) {
  const Expansion expansion = expand(program);
  const int n = int(expansion.issues.size());
  std::vector<std::vector<bool>> reaches(n, std::vector<bool>(n));  // reaches[b][a]: a is before b
  std::vector<std::vector<Touched>> touched(n);
  int races = 0;
  for (int b = 0; b < n; ++b) {
    const Issue& issue = expansion.issues[b];
    const auto after = [&](int lane, int event) {
      if (event < 1) return;
      const int a = expansion.issue_of(lane, event);
      reaches[b][a] = true;
      for (int i = 0; i < a; ++i)
        if (reaches[a][i]) reaches[b][i] = true;
    };
    after(issue.lane(), issue.sequence - 1);
    for (int lane = 0; lane < kMaxLanes; ++lane) after(lane, issue.waits[lane]);
    touched[b] = touched_by(program, issue);
    for (int a = 0; a < b; ++a) races += !reaches[b][a] && conflict(touched[a], touched[b]);
  }
  return races;
}

StepProgram random_program(std::mt19937& random, const RandomShape& shape) {
  const auto below = [&](std::int64_t n) { return std::int64_t(random() % n); };
  constexpr int kLanes = 4, kBuffers = 6;
  Writer writer({"a", "b", "c", "d"});
  std::vector<View> buffers, workspaces;
  for (int i = 0; i < kBuffers; ++i) {
    const Scope scope = std::array{Scope::slot, Scope::slot, Scope::step, Scope::micro_batch}[below(4)];
    buffers.push_back(writer.buffer(text("b", i), 1 + below(5), 8 * (1 + below(3)), OCT_U8, scope));
    writer.last_buffer().persistent = shape.persistent;
  }
  for (int i = 0; i < 2; ++i)
    workspaces.push_back(
        writer.buffer(text("w", i), 1, 32 * (i + 1), OCT_U8, Scope::step, MemoryClass::workspace));
  const auto part = [&] {
    View view = buffers[below(kBuffers)];
    if (!shape.one_pitch && view.rows % 2 == 0 && below(2))
      view.rows /= 2, view.columns *= 2, view.pitch *= 2;
    const std::int64_t row = below(view.rows), column = below(view.columns);
    switch (below(4)) {
      case 0:
        return view;
      case 1:
        return view.row_range(row, 1 + below(view.rows - row));
      case 2:
        return view.column_range(column, 1 + below(view.columns - column));
      default:
        return view.row_range(row, 1 + below(view.rows - row))
            .column_range(column, below(view.columns - column));
    }
  };
  for (int s = 0; s < 2; ++s) {
    writer.segment(text("segment ", s));
    for (const View& view : buffers) writer.operation(OCT_FILL, int(below(kLanes)), "set", {out(view)});
    for (int i = 0; i < shape.operations; ++i) {
      std::vector<Operand> operands{in(part()), below(3) ? out(part()) : update(part())};
      if (below(2)) operands.insert(operands.begin(), in(part()));
      Operation& operation = writer.operation(OCT_ADD, int(below(kLanes)), text("o", i), std::move(operands));
      if (below(3) == 0) operation.workspace = workspaces[below(2)];
    }
  }
  for (int i = 0; i < shape.calls; ++i) writer.call(i < 2 ? i : int(below(2)), int(below(2)), int(below(3)));
  writer.program.schedule.slots = 2;
  writer.program.schedule.micro_batches = 3;
  return writer.finish();
}

bool contains(const std::vector<std::string>& problems, const std::string& part) {
  return std::any_of(problems.begin(), problems.end(),
                     [&](const std::string& problem) { return problem.find(part) != std::string::npos; });
}

}  // namespace octachoron::toy
