#include "plugins/device/common/check.h"

#include <initializer_list>
#include <stdexcept>

#include "core/plugin/export.h"
#include "plugins/device/common/checker.h"

namespace octachoron::device_common {
namespace {

using Int = std::int64_t;
constexpr int kScalars = OCT_SCALARS;

constexpr Int kMany = Int(1) << 40;

void check_copy(const Checker& c) {
  c.shape(1, c.rows(0), c.columns(0));
  if (c.type(0) == c.type(1)) return;
  if (is_fp8(c.type(0))) return c.types(1, {OCT_F32, OCT_BF16});
  c.storage_type(0);
  c.storage_type(1);
}

void check_fill(const Checker& c) {
  c.types(0, {OCT_F32, OCT_F64, OCT_BF16, OCT_U8, OCT_I32, OCT_U32, OCT_U64, OCT_E4M3, OCT_E5M2});
  c.require(!is_fp8(c.type(0)) || c.op.f[0] == 0, "attribute f0 (value) is not 0, the only one for FP8");
}

void check_add(const Checker& c) {
  c.storage_type(0);
  c.storage_type(1);
  c.shape(1, c.rows(0), c.columns(0));
  c.optional(2, 1, c.columns(0));
  c.same_type({2, 3}, 0);
  c.shape(3, c.rows(0), c.columns(0));
}

void check_gemm(const Checker& c) {
  for (int i = 0; i < 4; ++i) c.flag(i);
  check_gemm_scales(c);
  const bool ta = c.op.i[0] == 1, tb = c.op.i[1] == 1;
  const Int m = ta ? c.columns(0) : c.rows(0), k = ta ? c.rows(0) : c.columns(0);
  const Int n = tb ? c.rows(1) : c.columns(1), depth = tb ? c.columns(1) : c.rows(1);
  c.require(k == depth, "operand 1 (b) has depth " + std::to_string(depth) + " where operand 0 (a) has " +
                            std::to_string(k));
  c.optional(4, 1, n);
  if (is_fp8(c.type(0))) {
    if (c.present(4)) c.types(4, {OCT_F32, OCT_BF16});
    c.types(5, {OCT_F32, OCT_BF16});
  } else {
    c.gradient_type(4, 0);
    c.storage_type(5);
  }
  c.shape(5, m, n);
}

void check_column_sum(const Checker& c) {
  c.flag(0);
  c.storage_type(0);
  c.shape(1, 1, c.columns(0));
  c.gradient_type(1, 0);
}

void check_norm(const Checker& c) {
  c.range(0, 0, 1);
  c.storage_type(0);
  c.shape(1, 1, c.columns(0));
  c.optional(2, 1, c.columns(0));
  c.shape(3, c.rows(0), c.columns(0));
  c.same_type({1, 2, 3}, 0);
  c.shape(4, c.rows(0), 2);
  if (c.present(4)) c.types(4, {c.wide(0)});
  c.require(c.columns(0) > 0, "operand 0 (x) has no columns");
  c.require(c.op.f[0] >= 0, "attribute f0 (epsilon) is negative");
}

void check_norm_backward(const Checker& c) {
  c.range(0, 0, 1);
  c.flag(1);
  c.storage_type(1);
  c.shape(0, c.rows(1), c.columns(1));
  c.shape(2, 1, c.columns(1));
  c.shape(3, c.rows(1), 2);
  if (c.present(3)) c.types(3, {c.wide(1)});
  c.optional(4, c.rows(1), c.columns(1));
  c.shape(5, c.rows(1), c.columns(1));
  c.same_type({0, 2, 4, 5}, 1);
  c.shape(6, 1, c.columns(1));
  c.gradient_type(6, 1);
  c.optional(7, 1, c.columns(1));
  if (c.present(7)) c.types(7, {c.type(6)});
  c.require(c.columns(1) > 0, "operand 1 (x) has no columns");
}

/// \param doubled operands shaped as the first, which is twice as wide as `single` ones if there are any
/// (SwiGLU)
void check_activation(const Checker& c, std::initializer_list<int> doubled,
                      std::initializer_list<int> single) {
  c.storage_type(0);
  const Int factor = doubled.size() > 0 ? 2 : 1;
  c.require(c.columns(0) % factor == 0, "operand 0 (x) has an odd number of columns");
  for (const int k : doubled) c.shape(k, c.rows(0), c.columns(0));
  for (const int k : single) c.shape(k, c.rows(0), c.columns(0) / factor);
  c.same_type(doubled, 0);
  c.same_type(single, 0);
}

/// i0 sequence, i1 heads, i2 key heads, i3 head size; operand 0 is qkv.
void check_heads(const Checker& c) {
  const Int *i = c.op.i, s = i[0], heads = i[1], key_heads = i[2], size = i[3];
  c.storage_type(0);
  c.range(0, 1, kMany);
  c.range(1, 1, kMany);
  c.range(2, 1, heads);
  c.range(3, 2, 256);
  c.require(heads % key_heads == 0,
            std::to_string(key_heads) + " key heads do not divide " + std::to_string(heads) + " heads");
  c.require(size % 2 == 0, "the head size " + std::to_string(size) + " is odd");
  c.require(c.rows(0) % s == 0,
            std::to_string(c.rows(0)) + " rows are not whole sequences of " + std::to_string(s));
  c.shape(0, c.rows(0), (heads + 2 * key_heads) * size);
}

void check_rope(const Checker& c) {
  check_heads(c);
  c.require(c.op.i[4] == 1 || c.op.i[4] == -1 || c.op.i[4] == 0,
            "attribute i4 (direction) is not -1, 0 or 1");
  c.range(5, 0, kMany);
  c.range(6, 1, 1);
  c.require(c.op.f[0] > 0, "attribute f0 (theta) is not positive");
}

void check_attention(const Checker& c, int out, int lse) {
  check_heads(c);
  c.shape(out, c.rows(0), c.op.i[1] * c.op.i[3]);
  c.shape(lse, c.rows(0), c.op.i[1]);
  c.same_type({out}, 0);
  if (c.present(lse)) c.types(lse, {c.wide(0)});
}

void check_attention_backward(const Checker& c) {
  check_attention(c, 1, 2);
  c.shape(3, c.rows(0), c.columns(1));
  c.shape(4, c.rows(0), c.columns(0));
  c.same_type({3, 4}, 0);
}

void check_ids(const Checker& c, int k, Int tokens) {
  if (tokens == 0) return;
  c.types(k, {OCT_I32});
  c.shape(k, 1, tokens);
}

void check_embedding(const Checker& c) {
  c.storage_type(1);
  check_ids(c, 0, c.rows(2));
  c.shape(2, c.rows(2), c.columns(1));
  c.same_type({2}, 1);
  c.range(0, 0, kMany);
}

void check_embedding_backward(const Checker& c) {
  c.storage_type(1);
  c.flag(1);
  c.range(0, 0, kMany);
  check_ids(c, 0, c.rows(1));
  c.require(c.rows(1) < (Int(1) << 32) && c.rows(2) < (Int(1) << 31), "more than 2^31 rows");
  c.shape(2, c.rows(2), c.columns(1));
  c.gradient_type(2, 1);
}

void check_position(const Checker& c, int table) {
  c.storage_type(0);
  c.range(0, 0, kMany);
  c.range(1, 1, kMany);
  c.shape(table, c.op.i[1], c.columns(0));
}

void check_statistics(const Checker& c, int k, Int parts) {
  c.storage_type(0);
  check_ids(c, 1, c.rows(0));
  c.range(0, 0, kMany);
  c.range(1, 1, kMany);
  c.shape(k, parts * c.rows(0), 3);
  if (c.present(k)) c.types(k, {c.wide(0)});
}

void check_doubles(const Checker& c, int k, Int n) {
  c.types(k, {OCT_F64});
  c.shape(k, 1, n);
}

void check_loss(const Checker& c) {
  c.range(2, 1, kMany);
  c.range(3, 1, 1);
  check_statistics(c, 2, c.op.i[2]);
  check_doubles(c, 3, kScalars);
  c.optional(4, c.rows(0), c.columns(0));
  c.same_type({4}, 0);
  check_doubles(c, 5, 1);
}

void check_adamw(const Checker& c) {
  c.storage_type(0);
  check_doubles(c, 1, kScalars);
  check_doubles(c, 2, 4);
  c.types(3, {OCT_F32, OCT_F64});
  for (const int k : {3, 4, 5}) c.shape(k, c.rows(0), c.columns(0));
  c.same_type({4, 5}, 3);
  c.optional(6, c.rows(0), c.columns(0));
  if (c.present(6)) c.types(6, {OCT_F32, OCT_BF16, c.type(3)});
  for (int i = 0; i < 2; ++i)
    c.require(c.op.f[i] >= 0 && c.op.f[i] < 1,
              "attribute f" + std::to_string(i) + " (beta) is not in [0, 1)");
}

void check(const Checker& c) {
  switch (c.op.op) {
    case OCT_FILL:
      return check_fill(c);
    case OCT_COPY:
      return check_copy(c);
    case OCT_ADD:
      return check_add(c);
    case OCT_GEMM:
      return check_gemm(c);
    case OCT_COLUMN_SUM:
      return check_column_sum(c);
    case OCT_NORM:
      return check_norm(c);
    case OCT_NORM_BACKWARD:
      return check_norm_backward(c);
    case OCT_GELU:
      return check_activation(c, {}, {1});
    case OCT_GELU_BACKWARD:
      return check_activation(c, {}, {1, 2});
    case OCT_SWIGLU:
      return check_activation(c, {0}, {1});
    case OCT_SWIGLU_BACKWARD:
      return check_activation(c, {0, 2}, {1});
    case OCT_ROPE:
      return check_rope(c);
    case OCT_ATTENTION:
      return check_attention(c, 1, 2);
    case OCT_ATTENTION_BACKWARD:
      return check_attention_backward(c);
    case OCT_EMBEDDING:
      return check_embedding(c);
    case OCT_EMBEDDING_BACKWARD:
      return check_embedding_backward(c);
    case OCT_POSITION:
      check_position(c, 1);
      c.shape(2, c.rows(0), c.columns(0));
      return c.same_type({1, 2}, 0);
    case OCT_POSITION_BACKWARD:
      check_position(c, 1);
      c.flag(2);
      return c.gradient_type(1, 0);
    case OCT_LOSS_STATISTICS:
      return check_statistics(c, 2, 1);
    case OCT_LOSS:
      return check_loss(c);
    case OCT_SUM_OF_SQUARES:
      c.flag(0);
      c.storage_type(0);
      return check_doubles(c, 1, 1);
    case OCT_CLIP:
      check_doubles(c, 0, 4);
      check_doubles(c, 1, kScalars);
      return check_doubles(c, 2, 4);
    case OCT_ADAMW:
      return check_adamw(c);
    case OCT_QUANTIZE:
      return check_quantize(c);
    case OCT_AMAX:
      return check_amax(c);
    case OCT_UPDATE_SCALE:
      return check_update_scale(c);
    case OCT_CURRENT_SCALE:
      return check_current_scale(c);
    case OCT_TRANSPOSE:
      return check_transpose(c);
    default:
      throw plugin::Failure(OCT_UNSUPPORTED, "operation " + std::to_string(c.op.op) + " is not one of this device");
  }
}

}  // namespace

oct_operation checked(const oct_operation& operation) {
  const Signature* s = signature(operation.op);
  if (operation.struct_size < sizeof(oct_operation))
    throw std::invalid_argument("the description is of an older layout");
  if (s == nullptr) {
    throw plugin::Failure(OCT_UNSUPPORTED,
                          "operation " + std::to_string(operation.op) + " is not one of this device");
  }
  const bool own = operation.operands >= s->required && operation.operands <= s->operands;
  if (!own && !fused_cast(operation.op).is_in(operation.operands)) {
    throw std::invalid_argument(std::string(s->name) + ": " + std::to_string(operation.operands) +
                                " operands, not " + std::to_string(s->operands));
  }
  oct_operation clean{};
  clean.struct_size = sizeof clean;
  clean.op = operation.op;
  clean.operands = operation.operands;
  for (int k = 0; k < operation.operands; ++k) {
    const oct_matrix& m = operation.operand[k];
    if (m.rows != 0) clean.operand[k] = {m.dtype, 0, m.rows, m.columns, m.pitch};
    if (m.rows == 0) clean.operand[k] = {m.dtype, 0, 0, m.columns, m.pitch};
  }
  for (int k = 0; k < 8; ++k) clean.i[k] = operation.i[k];
  for (int k = 0; k < 4; ++k) clean.f[k] = operation.f[k];
  const Checker checker(clean);
  check(checker);
  if (checker.casts()) check_fused_cast(checker);
  return clean;
}

bool is_empty(const oct_operation& operation, int operand) {
  return operation.operand[operand].rows == 0 || operation.operand[operand].columns == 0;
}

const char* operand_name(const oct_operation& operation, int operand) {
  const Signature& s = *signature(operation.op);
  return operand < s.operands ? s.operand[operand] : kCastOperand[operand - s.operands];
}
const char* operation_name(const oct_operation& operation) {
  return signature(operation.op)->name;
}

GemmShape gemm_shape(const oct_operation& operation) {
  const oct_matrix& a = operation.operand[0];
  const oct_matrix& d = operation.operand[5];
  return {d.rows, d.columns, operation.i[0] == 1 ? a.rows : a.columns};
}

}  // namespace octachoron::device_common
