#pragma once
/// One function for each operation of operations.h: puts operands and attributes in their places, once for
/// all layers. Results that `accumulate` are updated, otherwise written. All device operations go to lane
/// `compute` unless said.
#include "core/program/builder.h"

namespace octachoron {

struct Gemm {  ///< d (+)= op(a) op(b) / (a_scale b_scale) + bias
  View a, b, bias, d;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  View a_scale, b_scale;           ///< of FP8 operands
  bool fast_accumulation = false;  ///< of FP8 operands
};
/// The operation, not emitted: to ask the device about it.
Operation gemm_operation(ProgramBuilder& builder, const std::string& label, const Gemm& gemm);
void emit_gemm(ProgramBuilder& builder, const std::string& label, const Gemm& gemm);

void emit_fill(ProgramBuilder& builder, const std::string& label, const View& out, double value);
void emit_copy(ProgramBuilder& builder, const std::string& label, const View& in, const View& out,
               const char* lane);
void emit_add(ProgramBuilder& builder, const std::string& label, const View& a, const View& b,
              const View& bias, const View& out);
void emit_column_sum(ProgramBuilder& builder, const std::string& label, const View& x, const View& sum,
                     bool accumulate);

struct Norm {
  View x, weight, bias, y, statistics;
  double epsilon = 0;
};
void emit_norm(ProgramBuilder& builder, const std::string& label, const Norm& norm);
struct NormBackward {
  View dy, x, weight, statistics, residual, dx, dweight, dbias;
  bool accumulate = false;
};
void emit_norm_backward(ProgramBuilder& builder, const std::string& label, const NormBackward& norm);

void emit_gelu(ProgramBuilder& builder, const std::string& label, const View& x, const View& y);
void emit_gelu_backward(ProgramBuilder& builder, const std::string& label, const View& x, const View& dy,
                        const View& dx);

void emit_swiglu(ProgramBuilder& builder, const std::string& label, const View& x, const View& y);
void emit_swiglu_backward(ProgramBuilder& builder, const std::string& label, const View& x, const View& dy,
                          const View& dx);

struct AttentionShape {  ///< of this rank
  std::int64_t sequence = 0, heads = 0, kv_heads = 0, head_dim = 0;
};
void emit_attention(ProgramBuilder& builder, const std::string& label, const AttentionShape& shape,
                    const View& qkv, const View& out, const View& lse);
/// In place on queries and keys. \param direction 1: forward; -1: of their gradients
void emit_rope(ProgramBuilder& builder, const std::string& label, const AttentionShape& shape, double theta,
               int direction, const View& qkv);
struct AttentionBackward {
  View qkv, out, lse, dout, dqkv;
};
void emit_attention_backward(ProgramBuilder& builder, const std::string& label, const AttentionShape& shape,
                             const AttentionBackward& views);

/// Rows of a table whose first row is id `first + stride * coordinate` on tp.
struct VocabularyPart {
  std::int64_t stride = 0;  ///< rows a rank
  std::int64_t vocabulary = 0;
  int parts = 1;
};
void emit_embedding(ProgramBuilder& builder, const std::string& label, const VocabularyPart& part,
                    const View& ids, const View& table, const View& out);
void emit_embedding_backward(ProgramBuilder& builder, const std::string& label, const VocabularyPart& part,
                             const View& ids, const View& dout, const View& dtable, bool accumulate);
/// \param rows_stride tokens by which row 0 moves with each tp coordinate (0: all ranks hold the same rows)
struct PositionShape {
  std::int64_t sequence = 0, rows_stride = 0;
};
void emit_position(ProgramBuilder& builder, const std::string& label, const PositionShape& shape,
                   const View& x, const View& table, const View& out);
void emit_position_backward(ProgramBuilder& builder, const std::string& label, const PositionShape& shape,
                            const View& dout, const View& dtable, bool accumulate);

void emit_loss_statistics(ProgramBuilder& builder, const std::string& label, const VocabularyPart& part,
                          const View& logits, const View& targets, const View& statistics);
struct Loss {
  View logits, targets, statistics, scalars, dlogits, loss;  ///< dlogits absent: loss only
};
void emit_loss(ProgramBuilder& builder, const std::string& label, const VocabularyPart& part,
               const Loss& loss);

/// Treats the elements of one tensor in a flat range that begins somewhere in a bucket of tensors.
struct Window {
  std::int64_t begin = 0, end = 0;  ///< of the tensor, in elements of the bucket; empty: no window
  RankDependence first{};           ///< strides of the bucket element at which the range begins
  bool everything() const { return begin == end; }
};
struct Quantize {
  View x, scale, row, amax, counters;  ///< amax, counters may be absent; both grow
  Window window{};                     ///< of a window, what of `row` lies outside stays as it is
};
void emit_quantize(ProgramBuilder& builder, const std::string& label, const Quantize& quantize);
void emit_amax(ProgramBuilder& builder, const std::string& label, const View& x, const View& amax, bool accumulate,
               const Window& window = {});
struct ScaleRule {
  double format_max = 0;
  int margin = 0;
};
/// History rows roll, scales follow. \param unknown_only rows that have no positive entry yet
void emit_update_scale(ProgramBuilder& builder, const std::string& label, const View& amax, const View& history,
                       const View& scale, const ScaleRule& rule, int algorithm, bool unknown_only);
/// \param history, kept absent, or: where the history has a positive entry, the scale is `kept`
void emit_current_scale(ProgramBuilder& builder, const std::string& label, const View& amax, const View& history,
                        const View& kept, const View& scale, const ScaleRule& rule);
void emit_transpose(ProgramBuilder& builder, const std::string& label, const View& in, const View& out);

/// sum += factor * (sum of x^2)
void emit_sum_of_squares(ProgramBuilder& builder, const std::string& label, const View& x, const View& sum,
                         double factor);
void emit_clip(ProgramBuilder& builder, const View& control, const View& scalars, const View& result,
               double clip);
struct AdamW {
  View gradient, scalars, result, master, exp_avg, exp_avg_sq;
  double beta1 = 0, beta2 = 0, epsilon = 0, decay = 0;
};
void emit_adamw(ProgramBuilder& builder, const std::string& label, const AdamW& adamw);

}  // namespace octachoron
