#include "core/schedule/fuse_casts.h"

#include <algorithm>

#include "core/plugin/fused_cast.h"

namespace octachoron {

namespace {

bool same(const View& a, const View& b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.dtype == b.dtype && a.rows == b.rows &&
         a.columns == b.columns && a.pitch == b.pitch;
}

// Of the rows alone, all of them: not of a window, not transposed.
bool casts_rows(const Operation& operation) {
  return operation.op == OCT_QUANTIZE && operation.i[0] == 0 && !operation.operands[2].view.absent() &&
         operation.operands[3].view.absent();
}

Operation with_cast(const Operation& producer, const Operation& quantize, bool keep) {
  Operation fused = producer;
  if (!keep) fused.operands[fused_cast(producer.op).wide].view = View{};
  for (const int k : {1, 2, 4, 5}) fused.operands.push_back(quantize.operands[k]);
  fused.cast = quantize.label;
  return fused;
}

class CastFusion {
 public:
  CastFusion(ProgramBuilder& builder, StepProgram& program)
      : builder_(builder), program_(program), uses_(program.buffers.size()) {
    for (const Segment& segment : program.segments)
      for (const Operation& operation : segment.operations)
        for_each_access(operation, [&](const View& view, Access) { ++uses_[std::size_t(view.buffer)]; });
  }

  int run() {
    int merged = 0;
    for (Segment& segment : program_.segments) {
      std::vector<Operation> operations;
      for (Operation& operation : segment.operations) {
        if (!operations.empty() && merge(operations.back(), operation))
          ++merged;
        else
          operations.push_back(std::move(operation));
      }
      segment.operations = std::move(operations);
    }
    return merged;
  }

 private:
  // Makes `producer` cast too, if it can.
  bool merge(Operation& producer, const Operation& quantize) {
    const FusedCast cast = fused_cast(producer.op);
    if (int(producer.operands.size()) != cast.first || !cast.possible() || producer.lane != quantize.lane ||
        !casts_rows(quantize) || !same(producer.operands[cast.wide].view, quantize.operands[0].view))
      return false;
    const View& wide = producer.operands[cast.wide].view;
    const Buffer& buffer = program_.buffers[wide.buffer];
    const bool others = uses_[std::size_t(wide.buffer)] > 2 || buffer.persistent || buffer.kept;
    for (const bool keep : {false, true}) {
      if (others && !keep) continue;
      Operation fused = with_cast(producer, quantize, keep);
      if (!builder_.supports(fused)) continue;
      builder_.add_workspace(fused);
      producer = std::move(fused);
      return true;
    }
    return false;
  }

  ProgramBuilder& builder_;
  StepProgram& program_;
  std::vector<int> uses_;  // of each buffer, by operations
};

}  // namespace

int fuse_casts(ProgramBuilder& builder, StepProgram& program) {
  return CastFusion(builder, program).run();
}

}  // namespace octachoron
