#include "core/schedule/overlap.h"

#include <algorithm>

namespace octachoron {

namespace {

bool is_weight_gradient(const StepProgram& program, const Operation& operation) {
  if (operation.op != OCT_GEMM) return false;
  const View& result = operation.operands.back().view;
  return program.buffers[result.buffer].memory == MemoryClass::gradient;
}

bool is_tp_collective(const StepProgram& program, const Operation& operation) {
  return is_communication(operation.op) && program.lanes[operation.lane].name == "tp";
}

}  // namespace

bool commute(const Operation& a, const Operation& b) {
  bool free = true;
  for_each_access(a, [&](const View& x, Access of_a) {
    for_each_access(b, [&](const View& y, Access of_b) {
      if (x.buffer == y.buffer && (writes(of_a) || writes(of_b)) && overlap(x.box(), y.box())) free = false;
    });
  });
  // Operations of one lane share its workspace one after another: that is no reason to keep their order.
  if (!free && a.lane == b.lane && !a.workspace.absent() && !b.workspace.absent()) {
    Operation without = a;
    without.workspace = View{};
    return commute(without, b);
  }
  return free;
}

int overlap_weight_gradients(StepProgram& program) {
  int moved = 0;
  for (Segment& segment : program.segments) {
    auto& operations = segment.operations;
    for (int i = int(operations.size()) - 1; i >= 0;
         --i) {  // backwards: several keep their order behind one window
      if (!is_weight_gradient(program, operations[i])) continue;
      int to = i + 1;
      const int end = int(operations.size());
      while (to < end && !is_tp_collective(program, operations[to]) && commute(operations[i], operations[to]))
        ++to;
      // Past a gather of the next operand there may be a reduction that takes longer: the first window is
      // good enough.
      if (to == end || !is_tp_collective(program, operations[to]) || !commute(operations[i], operations[to]))
        continue;
      std::rotate(operations.begin() + i, operations.begin() + i + 1, operations.begin() + to + 1);
      ++moved;
    }
  }
  return moved;
}

}  // namespace octachoron
