#include "core/program/emit.h"

namespace octachoron {

namespace {

Operation operation(ProgramBuilder& builder, oct_op op, const std::string& label, std::vector<Operand> operands) {
  return {.op = op, .lane = builder.lane("compute"), .label = label, .operands = std::move(operands)};
}

void set_window(Operation& operation, const Window& window, int flag) {
  if (window.everything()) return;
  operation.i[flag] = 1, operation.i[2] = window.begin, operation.i[3] = window.end;
  operation.rank_dependence = window.first;
  operation.rank_dependence.attribute = 1;
}

}  // namespace

void emit_quantize(ProgramBuilder& builder, const std::string& label, const Quantize& quantize) {
  const Access of_row = quantize.window.everything() ? Access::write : Access::update;
  Operation op = operation(builder, OCT_QUANTIZE, label,
                           {{quantize.x}, {quantize.scale}, {quantize.row, of_row}, {}, {quantize.amax, Access::update},
                            {quantize.counters, Access::update}});
  set_window(op, quantize.window, 0);
  builder.emit(std::move(op));
}

void emit_amax(ProgramBuilder& builder, const std::string& label, const View& x, const View& amax, bool accumulate,
               const Window& window) {
  Operation op =
      operation(builder, OCT_AMAX, label, {{x}, {amax, accumulate ? Access::update : Access::write}});
  op.i[0] = accumulate;
  set_window(op, window, 4);
  builder.emit(std::move(op));
}

void emit_update_scale(ProgramBuilder& builder, const std::string& label, const View& amax, const View& history,
                       const View& scale, const ScaleRule& rule, int algorithm, bool unknown_only) {
  Operation op = operation(builder, OCT_UPDATE_SCALE, label,
                           {{amax}, {history, Access::update}, {scale, Access::update}});
  op.i = {rule.margin, algorithm, unknown_only};
  op.f = {rule.format_max};
  builder.emit(std::move(op));
}

void emit_current_scale(ProgramBuilder& builder, const std::string& label, const View& amax, const View& history,
                        const View& kept, const View& scale, const ScaleRule& rule) {
  Operation op =
      operation(builder, OCT_CURRENT_SCALE, label, {{amax}, {history}, {kept}, {scale, Access::write}});
  op.i = {rule.margin};
  op.f = {rule.format_max};
  builder.emit(std::move(op));
}

void emit_transpose(ProgramBuilder& builder, const std::string& label, const View& in, const View& out) {
  builder.emit(operation(builder, OCT_TRANSPOSE, label, {{in}, {out, Access::write}}));
}

}  // namespace octachoron
