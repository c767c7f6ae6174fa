#include "core/program/emit.h"

#include <cmath>

namespace octachoron {

namespace {

Operation operation(ProgramBuilder& builder, oct_op op, const std::string& label,
                    std::vector<Operand> operands, const char* lane = "compute") {
  return {.op = op, .lane = builder.lane(lane), .label = label, .operands = std::move(operands)};
}

Access result(bool accumulate) {
  return accumulate ? Access::update : Access::write;
}

}  // namespace

Operation gemm_operation(ProgramBuilder& builder, const std::string& label, const Gemm& gemm) {
  Operation op = operation(builder, OCT_GEMM, label,
                           {{gemm.a}, {gemm.b}, {gemm.a_scale}, {gemm.b_scale}, {gemm.bias}, {gemm.d, result(gemm.accumulate)}});
  op.i = {gemm.transpose_a, gemm.transpose_b, gemm.accumulate, gemm.fast_accumulation};
  return op;
}

void emit_gemm(ProgramBuilder& builder, const std::string& label, const Gemm& gemm) {
  builder.emit(gemm_operation(builder, label, gemm));
}

void emit_fill(ProgramBuilder& builder, const std::string& label, const View& out, double value) {
  Operation op = operation(builder, OCT_FILL, label, {{out, Access::write}});
  op.f = {value};
  builder.emit(std::move(op));
}

void emit_copy(ProgramBuilder& builder, const std::string& label, const View& in, const View& out,
               const char* lane) {
  builder.emit(operation(builder, OCT_COPY, label, {{in}, {out, Access::write}}, lane));
}

void emit_add(ProgramBuilder& builder, const std::string& label, const View& a, const View& b,
              const View& bias, const View& out) {
  builder.emit(operation(builder, OCT_ADD, label, {{a}, {b}, {bias}, {out, Access::write}}));
}

void emit_column_sum(ProgramBuilder& builder, const std::string& label, const View& x, const View& sum,
                     bool accumulate) {
  Operation op = operation(builder, OCT_COLUMN_SUM, label, {{x}, {sum, result(accumulate)}});
  op.i = {accumulate};
  builder.emit(std::move(op));
}

void emit_norm(ProgramBuilder& builder, const std::string& label, const Norm& norm) {
  Operation op = operation(
      builder, OCT_NORM, label,
      {{norm.x}, {norm.weight}, {norm.bias}, {norm.y, Access::write}, {norm.statistics, Access::write}});
  op.i = {norm.bias.absent()};
  op.f = {norm.epsilon};
  builder.emit(std::move(op));
}

void emit_norm_backward(ProgramBuilder& builder, const std::string& label, const NormBackward& norm) {
  Operation op = operation(builder, OCT_NORM_BACKWARD, label,
                           {{norm.dy},
                            {norm.x},
                            {norm.weight},
                            {norm.statistics},
                            {norm.residual},
                            {norm.dx, Access::write},
                            {norm.dweight, result(norm.accumulate)},
                            {norm.dbias, result(norm.accumulate)}});
  op.i = {norm.dbias.absent(), norm.accumulate};
  builder.emit(std::move(op));
}

void emit_gelu(ProgramBuilder& builder, const std::string& label, const View& x, const View& y) {
  builder.emit(operation(builder, OCT_GELU, label, {{x}, {y, Access::write}}));
}

void emit_gelu_backward(ProgramBuilder& builder, const std::string& label, const View& x, const View& dy,
                        const View& dx) {
  builder.emit(operation(builder, OCT_GELU_BACKWARD, label, {{x}, {dy}, {dx, Access::write}}));
}

void emit_swiglu(ProgramBuilder& builder, const std::string& label, const View& x, const View& y) {
  builder.emit(operation(builder, OCT_SWIGLU, label, {{x}, {y, Access::write}}));
}

void emit_swiglu_backward(ProgramBuilder& builder, const std::string& label, const View& x, const View& dy,
                          const View& dx) {
  builder.emit(operation(builder, OCT_SWIGLU_BACKWARD, label, {{x}, {dy}, {dx, Access::write}}));
}

namespace {
void set_shape(Operation& op, const AttentionShape& shape) {
  op.i = {shape.sequence, shape.heads, shape.kv_heads, shape.head_dim};
  op.f = {1.0 / std::sqrt(double(shape.head_dim))};
}
}  // namespace

void emit_rope(ProgramBuilder& builder, const std::string& label, const AttentionShape& shape, double theta,
               int direction, const View& qkv) {
  Operation op = operation(builder, OCT_ROPE, label, {{qkv, Access::update}});
  op.i = {shape.sequence, shape.heads, shape.kv_heads, shape.head_dim, direction, 0, 1};
  op.f = {theta};
  builder.emit(std::move(op));
}

void emit_attention(ProgramBuilder& builder, const std::string& label, const AttentionShape& shape,
                    const View& qkv, const View& out, const View& lse) {
  Operation op =
      operation(builder, OCT_ATTENTION, label, {{qkv}, {out, Access::write}, {lse, Access::write}});
  set_shape(op, shape);
  builder.emit(std::move(op));
}

void emit_attention_backward(ProgramBuilder& builder, const std::string& label, const AttentionShape& shape,
                             const AttentionBackward& views) {
  Operation op =
      operation(builder, OCT_ATTENTION_BACKWARD, label,
                {{views.qkv}, {views.out}, {views.lse}, {views.dout}, {views.dqkv, Access::write}});
  set_shape(op, shape);
  builder.emit(std::move(op));
}

void emit_embedding(ProgramBuilder& builder, const std::string& label, const VocabularyPart& part,
                    const View& ids, const View& table, const View& out) {
  Operation op = operation(builder, OCT_EMBEDDING, label, {{ids}, {table}, {out, Access::write}});
  op.rank_dependence = {0, Axis::tp, part.stride};
  builder.emit(std::move(op));
}

void emit_embedding_backward(ProgramBuilder& builder, const std::string& label, const VocabularyPart& part,
                             const View& ids, const View& dout, const View& dtable, bool accumulate) {
  Operation op =
      operation(builder, OCT_EMBEDDING_BACKWARD, label, {{ids}, {dout}, {dtable, result(accumulate)}});
  op.i = {0, accumulate};
  op.rank_dependence = {0, Axis::tp, part.stride};
  builder.emit(std::move(op));
}

void emit_position(ProgramBuilder& builder, const std::string& label, const PositionShape& shape,
                   const View& x, const View& table, const View& out) {
  Operation op = operation(builder, OCT_POSITION, label, {{x}, {table}, {out, Access::write}});
  op.i = {0, shape.sequence};
  op.rank_dependence = {0, Axis::tp, shape.rows_stride};
  builder.emit(std::move(op));
}

void emit_position_backward(ProgramBuilder& builder, const std::string& label, const PositionShape& shape,
                            const View& dout, const View& dtable, bool accumulate) {
  Operation op = operation(builder, OCT_POSITION_BACKWARD, label, {{dout}, {dtable, result(accumulate)}});
  op.i = {0, shape.sequence, accumulate};
  op.rank_dependence = {0, Axis::tp, shape.rows_stride};
  builder.emit(std::move(op));
}

void emit_loss_statistics(ProgramBuilder& builder, const std::string& label, const VocabularyPart& part,
                          const View& logits, const View& targets, const View& statistics) {
  Operation op =
      operation(builder, OCT_LOSS_STATISTICS, label, {{logits}, {targets}, {statistics, Access::write}});
  op.i = {0, part.vocabulary};
  op.rank_dependence = {0, Axis::tp, part.stride};
  builder.emit(std::move(op));
}

void emit_loss(ProgramBuilder& builder, const std::string& label, const VocabularyPart& part,
               const Loss& loss) {
  Operation op = operation(builder, OCT_LOSS, label,
                           {{loss.logits},
                            {loss.targets},
                            {loss.statistics},
                            {loss.scalars},
                            {loss.dlogits, Access::write},
                            {loss.loss, Access::update}});
  op.i = {0, part.vocabulary, part.parts, 1};
  op.rank_dependence = {0, Axis::tp, part.stride};
  builder.emit(std::move(op));
}

void emit_sum_of_squares(ProgramBuilder& builder, const std::string& label, const View& x, const View& sum,
                         double factor) {
  Operation op = operation(builder, OCT_SUM_OF_SQUARES, label, {{x}, {sum, Access::update}});
  op.i = {1};
  op.f = {factor};
  builder.emit(std::move(op));
}

void emit_clip(ProgramBuilder& builder, const View& control, const View& scalars, const View& result,
               double clip) {
  Operation op =
      operation(builder, OCT_CLIP, "gradient norm", {{control}, {scalars}, {result, Access::write}});
  op.f = {clip};
  builder.emit(std::move(op));
}

void emit_adamw(ProgramBuilder& builder, const std::string& label, const AdamW& adamw) {
  Operation op = operation(builder, OCT_ADAMW, label,
                           {{adamw.gradient},
                            {adamw.scalars},
                            {adamw.result},
                            {adamw.master, Access::update},
                            {adamw.exp_avg, Access::update},
                            {adamw.exp_avg_sq, Access::update},
                            {}});
  op.f = {adamw.beta1, adamw.beta2, adamw.epsilon, adamw.decay};
  builder.emit(std::move(op));
}

}  // namespace octachoron
