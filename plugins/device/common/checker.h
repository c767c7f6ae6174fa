#pragma once
/// What judgements of descriptions are written with.
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "core/plugin/dtype.h"
#include "core/plugin/fused_cast.h"
#include "core/plugin/operations.h"
#include "plugins/device/common/signature.h"

namespace octachoron::device_common {

/// Reads a description and refuses what does not fit, naming it.
class Checker {
 public:
  explicit Checker(const oct_operation& operation)
      : op(operation), signature_(*signature(operation.op)), cast_(fused_cast(operation.op)) {
    for (int k = 0; k < op.operands; ++k) layout(k);
  }

  const oct_operation& op;

  std::int64_t rows(int k) const { return op.operand[k].rows; }
  std::int64_t columns(int k) const { return op.operand[k].columns; }
  int type(int k) const { return op.operand[k].dtype; }
  bool present(int k) const { return op.operand[k].rows > 0; }
  /// The operation carries a cast of its result.
  bool casts() const { return cast_.is_in(op.operands); }
  const FusedCast& cast() const { return cast_; }
  /// The type that elements of operand k are computed in.
  int wide(int k) const { return type(k) == OCT_F64 ? OCT_F64 : OCT_F32; }

  [[noreturn]] void refuse(const std::string& what) const {
    throw std::invalid_argument(std::string(signature_.name) + ": " + what);
  }
  void require(bool condition, const std::string& what) const {
    if (!condition) refuse(what);
  }
  std::string operand(int k) const {
    const bool own = k < signature_.operands;
    return std::string("operand ") + std::to_string(k) + " (" +
           (own ? signature_.operand[k] : kCastOperand[k - signature_.operands]) + ")";
  }

  void shape(int k, std::int64_t rows, std::int64_t columns) const {
    const oct_matrix& m = op.operand[k];
    if (m.rows == rows && m.columns == columns) return;
    if (casts() && k == cast_.wide && !present(k)) return;  // cast and not kept
    refuse(operand(k) + " is " + dims(m.rows, m.columns) + ", not " + dims(rows, columns));
  }
  void optional(int k, std::int64_t rows, std::int64_t columns) const {
    if (present(k)) shape(k, rows, columns);
  }
  void types(int k, std::initializer_list<int> allowed) const {
    std::string list;
    for (const int t : allowed) {
      if (type(k) == t) return;
      list += (list.empty() ? "" : " or ") + std::string(name(DType(t)));
    }
    refuse(operand(k) + " is of type " + name(DType(type(k))) + ", not " + list);
  }
  void same_type(std::initializer_list<int> operands, int as) const {
    for (const int k : operands) {
      if (present(k)) types(k, {type(as)});
    }
  }
  void storage_type(int k) const { types(k, {OCT_F32, OCT_F64, OCT_BF16}); }
  void gradient_type(int k, int of) const {
    if (present(k)) types(k, {wide(of), type(of)});
  }
  void flag(int i) const { range(i, 0, 1); }
  void range(int i, std::int64_t least, std::int64_t most) const {
    if (op.i[i] >= least && op.i[i] <= most) return;
    refuse("attribute i" + std::to_string(i) + " is " + std::to_string(op.i[i]) + ", not in " +
           std::to_string(least) + " .. " + std::to_string(most));
  }
  static std::string dims(std::int64_t rows, std::int64_t columns) {
    return std::to_string(rows) + " x " + std::to_string(columns);
  }

 private:
  void layout(int k) const {
    const oct_matrix& m = op.operand[k];
    require(m.rows >= 0 && m.columns >= 0, operand(k) + " has a negative size");
    if (m.rows == 0) return;
    require(m.dtype >= 0 && m.dtype < OCT_DTYPES, operand(k) + " has an unknown type");
    require(m.pitch >= m.columns,
            operand(k) + " has a pitch of " + std::to_string(m.pitch) + ", below its columns");
  }

  const Signature& signature_;
  FusedCast cast_;
};

/// Casts to FP8, maxima, scales and transpositions: check_scaling.cpp. The same errors as checked().
void check_quantize(const Checker& checker);
/// The cast that an operation carries.
void check_fused_cast(const Checker& checker);
void check_amax(const Checker& checker);
void check_update_scale(const Checker& checker);
void check_current_scale(const Checker& checker);
void check_transpose(const Checker& checker);
/// The scales of a product: with FP8 operands both, without none.
void check_gemm_scales(const Checker& checker);

}  // namespace octachoron::device_common
