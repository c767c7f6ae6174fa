#include "core/model/quantizer.h"

#include "core/numerics/formats.h"

namespace octachoron {

namespace {

constexpr std::int64_t kScalePitch = 4;  // cuBLASLt wants scales at multiples of 16 bytes

ScaleRule rule_of(const oct_quant_spec& spec) {
  return {format_maximum(DType(spec.format)), spec.margin};
}

}  // namespace

Quantizer::Quantizer(ProgramBuilder& builder, const QuantizationPlan& plan, ProgramKind kind)
    : builder_(builder), plan_(plan), kind_(kind) {
  if (plan.empty()) return;
  const std::int64_t rows = std::int64_t(plan.tensors.size()), counters = std::int64_t(plan.counters.size());
  const auto matrix = [&](const char* name, DType type, std::int64_t count, std::int64_t columns, MemoryClass memory) {
    return builder.matrix(name, type, count, columns, memory, Scope::step);
  };
  scale_ = matrix(PrecisionBuffers::scale, OCT_F32, rows, kScalePitch, MemoryClass::scale);
  history_ = matrix(PrecisionBuffers::history, OCT_F32, rows, plan.window(), MemoryClass::scale);
  builder.set_persistent(scale_), builder.set_persistent(history_);
  if (kind == ProgramKind::validation) return;
  amax_ = matrix("precision.amax", OCT_U32, rows, 1, MemoryClass::scale);
  counters_ = matrix("precision.counters", OCT_U64, counters, 3, MemoryClass::scale);
  host_amax_ = matrix(PrecisionBuffers::amax, OCT_U32, rows, 1, MemoryClass::host);
  host_counters_ = matrix(PrecisionBuffers::counters, OCT_U64, counters, 3, MemoryClass::host);
  builder.set_kept(host_amax_), builder.set_kept(host_counters_);
}

void Quantizer::begin() const {
  if (amax_.absent()) return;
  emit_fill(builder_, "precision.amax", amax_, 0);
  emit_fill(builder_, "precision.counters", counters_, 0);
}

Quantized Quantizer::cast(int row, const View& x) const {
  const QuantizedTensor& tensor = plan_.tensors[row];
  const bool current = !tensor.has_history() || kind_ == ProgramKind::calibration;
  const Quantized cast{builder_.temporary(text(tensor.name, ".", name(tensor.format())), tensor.format(), x.rows, x.columns),
                       current ? current_scale(row, x) : scale(row)};
  Quantize quantize{.x = x, .scale = cast.scale, .row = cast.data};
  if (!amax_.absent()) quantize.amax = amax_.row_range(row, 1), quantize.counters = counters_.row_range(row, 1);
  emit_quantize(builder_, tensor.name, quantize);
  return cast;
}

View Quantizer::current_scale(int row, const View& x) const {
  const QuantizedTensor& tensor = plan_.tensors[row];
  const View amax = builder_.temporary(tensor.name + ".amax", OCT_U32, 1, 1, MemoryClass::scale);
  const View made = builder_.temporary(tensor.name + ".scale", OCT_F32, 1, 1, MemoryClass::scale);
  emit_amax(builder_, tensor.name + ".amax", x, amax, false);
  if (tensor.copies == 1)  // else every TP rank has seen all of it
    builder_.all_reduce({Axis::tp, "amax"}, builder_.lane("control"), tensor.name + ".amax", amax, OCT_MAX);
  const bool known = tensor.has_history();
  emit_current_scale(builder_, tensor.name + ".scale", amax,
                     known ? history_.row_range(row, 1).column_range(0, tensor.spec.history) : View{},
                     known ? scale(row) : View{}, made, rule_of(tensor.spec));
  return made;
}

void Quantizer::cast_weight(int row, int counter, const View& masters, const View& bytes, const Window& window) const {
  Quantize quantize{.x = masters, .scale = scale(row), .row = bytes, .window = window};
  if (!counters_.absent()) quantize.counters = counters_.row_range(counter, 1);
  emit_quantize(builder_, plan_.tensors[row].name, quantize);
}

void Quantizer::record_weight(int row, const View& masters, const Window& window) const {
  emit_amax(builder_, plan_.tensors[row].name + ".amax", masters, amax_.row_range(row, 1), true, window);
}

void Quantizer::finish() const {
  if (amax_.absent()) return;
  const AxisSet holders = Axis::tp | Axis::cp | Axis::dp;
  const int lane = builder_.lane("control");
  builder_.all_reduce({holders, "amax"}, lane, "precision.amax", amax_, OCT_MAX);
  builder_.all_reduce({holders, "counters"}, lane, "precision.counters", counters_);
  for (const HistoryGroup& group : plan_.groups) {
    const View history = history_.row_range(group.first, group.count).column_range(0, group.spec.history);
    emit_update_scale(builder_, "precision.scale", amax_.row_range(group.first, group.count), history,
                      scale_.row_range(group.first, group.count).column_range(0, 1), rule_of(group.spec),
                      group.spec.amax_algorithm, kind_ == ProgramKind::calibration);
  }
  emit_copy(builder_, "precision.amax", amax_, host_amax_, "copy");
  emit_copy(builder_, "precision.counters", counters_, host_counters_, "copy");
}

View Quantizer::transposed(const std::string& label, const View& view) const {
  const View copy = builder_.temporary(label + ".transposed", view.dtype, view.columns, view.rows);
  emit_transpose(builder_, label, view, copy);
  return copy;
}

void Quantizer::product(const std::string& label, Gemm gemm) const {
  if (!gemm.a_scale.absent() && !builder_.supports(gemm_operation(builder_, label, gemm))) {
    // Hopper multiplies FP8 only where both operands are read along the inner dimension (A as it is, B transposed).
    if (gemm.transpose_a) gemm.a = transposed(label + ".a", gemm.a), gemm.transpose_a = false;
    if (!gemm.transpose_b) gemm.b = transposed(label + ".b", gemm.b), gemm.transpose_b = true;
  }
  emit_gemm(builder_, label, gemm);
}

}  // namespace octachoron
