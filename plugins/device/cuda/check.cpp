#include "plugins/device/cuda/check.h"

#include <stdexcept>
#include <string>

#include "core/plugin/dtype.h"
#include "core/plugin/export.h"
#include "plugins/device/cpu/check.h"
#include "plugins/device/cpu/signature.h"

namespace octachoron::cuda {
namespace {

using Int = std::int64_t;

/// Operations that are judged here.
constexpr cpu::Signature kOwn[] = {
    {OCT_GEMM, "gemm", 6, 6, {"a", "b", "a_scale", "b_scale", "bias", "d"}},
    {OCT_QUANTIZE, "quantize", 3, 6, {"x", "scale", "row", "column", "amax", "counters"}},
    {OCT_AMAX, "amax", 2, 2, {"x", "amax"}},
    {OCT_UPDATE_SCALE, "update_scale", 3, 3, {"amax", "history", "scale"}},
    {OCT_CURRENT_SCALE, "current_scale", 4, 4, {"amax", "history", "kept", "scale"}},
    {OCT_TRANSPOSE, "transpose", 2, 2, {"in", "out"}},
};

const cpu::Signature* own(int op) {
  for (const cpu::Signature& s : kOwn) {
    if (s.op == op) return &s;
  }
  return nullptr;
}

const cpu::Signature& signature_of(const oct_operation& op) {
  const cpu::Signature* s = own(op.op);
  if (s == nullptr) s = cpu::signature(op.op);
  if (s == nullptr) throw std::logic_error("a checked operation without a name");
  return *s;
}

/// Reads a description and refuses what does not fit, naming it.
struct Judge {
  const oct_operation& op;
  const cpu::Signature& signature;

  const oct_matrix& at(int k) const { return op.operand[k]; }
  bool present(int k) const { return at(k).rows > 0; }
  std::string operand(int k) const {
    return std::string(signature.name) + ": operand " + std::to_string(k) + " (" + signature.operand[k] + ")";
  }
  void require(bool condition, const std::string& what) const {
    if (!condition) throw std::invalid_argument(what);
  }
  void attribute(int i, Int least, Int most) const {
    require(op.i[i] >= least && op.i[i] <= most, std::string(signature.name) + ": attribute i" +
                                                     std::to_string(i) + " is " + std::to_string(op.i[i]) +
                                                     ", not in " + std::to_string(least) + " .. " +
                                                     std::to_string(most));
  }
  void shape(int k, Int rows, Int columns) const {
    const auto dims = [](Int r, Int c) { return std::to_string(r) + " x " + std::to_string(c); };
    require(at(k).rows == rows && at(k).columns == columns,
            operand(k) + " is " + dims(at(k).rows, at(k).columns) + ", not " + dims(rows, columns));
  }
  void type(int k, DType first, DType second) const {
    const int t = at(k).dtype;
    require(t == first || t == second, operand(k) + " is of type " + name(DType(t)) + ", not " + name(first) +
                                           (first == second ? "" : std::string(" or ") + name(second)));
  }
  void scalar(int k, DType t) const {
    type(k, t, t);
    shape(k, 1, 1);
  }
  void layouts() const {
    for (int k = 0; k < signature.operands; ++k) {
      require(at(k).rows >= 0 && at(k).columns >= 0, operand(k) + " has a negative size");
      require(!present(k) || at(k).pitch >= at(k).columns, operand(k) + " has a pitch below its columns");
      require(!present(k) || (at(k).dtype >= 0 && at(k).dtype < OCT_DTYPES),
              operand(k) + " has an unknown type");
    }
  }
};

/// Multiples of 16 are what cuBLASLt asks of FP8, and the transposition.
void check_fp8_gemm(const Judge& j) {
  const oct_matrix &a = j.at(0), &b = j.at(1), &d = j.at(5);
  for (int i = 0; i < 4; ++i) j.attribute(i, 0, 1);
  j.type(0, OCT_E4M3, OCT_E5M2);
  j.type(1, OCT_E4M3, OCT_E5M2);
  j.scalar(2, OCT_F32);
  j.scalar(3, OCT_F32);
  if (j.op.i[0] != 0 || j.op.i[1] != 1)
    throw plugin::Failure(OCT_UNSUPPORTED,
                          "gemm: in FP8 a is taken as it is and b transposed (i0 = 0, i1 = 1), nothing else");
  if (a.dtype == OCT_E5M2 && b.dtype == OCT_E5M2)
    throw plugin::Failure(OCT_UNSUPPORTED, "gemm: at least one of two FP8 operands must be of type e4m3");
  j.require(a.columns == b.columns, j.operand(1) + " has depth " + std::to_string(b.columns) +
                                        " where operand 0 (a) has " + std::to_string(a.columns));
  if (j.present(4)) j.shape(4, 1, b.rows), j.type(4, OCT_BF16, OCT_F32);
  j.shape(5, a.rows, b.rows);
  j.type(5, OCT_BF16, OCT_F32);
  for (const Int size : {a.rows, a.columns, b.rows, a.pitch, b.pitch, d.pitch}) {
    if (size % 16 != 0 || size == 0)
      throw plugin::Failure(OCT_UNSUPPORTED, "gemm: in FP8 all sizes and pitches must be multiples of 16; " +
                                                 std::to_string(size) + " is not");
  }
}

void check_quantize(const Judge& j) {
  const oct_matrix& x = j.at(0);
  j.type(0, OCT_F32, OCT_BF16);
  j.scalar(1, OCT_F32);
  j.attribute(0, 0, 1);
  j.require(j.present(2) || j.present(3), "quantize: neither row nor column is asked for");
  if (j.present(2)) j.shape(2, x.rows, x.columns), j.type(2, OCT_E4M3, OCT_E5M2);
  if (j.present(3)) j.shape(3, x.columns, x.rows), j.type(3, OCT_E4M3, OCT_E5M2);
  j.require(!j.present(2) || !j.present(3) || j.at(2).dtype == j.at(3).dtype,
            "quantize: row and column differ in type");
  if (j.present(4)) j.scalar(4, OCT_U32);
  if (j.present(5)) j.type(5, OCT_U64, OCT_U64), j.shape(5, 1, 3);
  if (j.op.i[0] == 1)
    j.require(x.rows == 1 && !j.present(3), "quantize: a window is of one row, without column");
}

void check_amax(const Judge& j) {
  j.type(0, OCT_F32, OCT_BF16);
  j.scalar(1, OCT_U32);
  j.attribute(0, 0, 1);
  j.attribute(4, 0, 1);
  if (j.op.i[4] == 1) j.require(j.at(0).rows == 1, "amax: a window is of one row");
}

void check_update_scale(const Judge& j) {
  const Int n = j.at(0).rows;
  j.type(0, OCT_U32, OCT_U32);
  j.shape(0, n, 1);
  j.type(1, OCT_F32, OCT_F32);
  j.shape(1, n, j.at(1).columns);
  j.require(j.at(1).columns >= 1, j.operand(1) + " has no entries");
  j.type(2, OCT_F32, OCT_F32);
  j.shape(2, n, 1);
  j.attribute(0, 0, 126);
  j.attribute(1, 0, 2);
  j.attribute(2, 0, 1);
  j.require(j.op.f[0] > 0, "update_scale: attribute f0 (format maximum) is not positive");
}

void check_current_scale(const Judge& j) {
  j.scalar(0, OCT_U32);
  if (j.present(1)) j.type(1, OCT_F32, OCT_F32), j.shape(1, 1, j.at(1).columns);
  if (j.present(2)) j.scalar(2, OCT_F32);
  j.require(j.present(1) == j.present(2), "current_scale: history and kept go together");
  j.scalar(3, OCT_F32);
  j.attribute(0, 0, 126);
  j.require(j.op.f[0] > 0, "current_scale: attribute f0 (format maximum) is not positive");
}

void check_transpose(const Judge& j) {
  j.shape(1, j.at(0).columns, j.at(0).rows);
  j.type(1, DType(j.at(0).dtype), DType(j.at(0).dtype));
  j.require(size_of(DType(j.at(0).dtype)) <= 4, j.operand(0) + " has elements of more than 4 bytes");
}

oct_operation checked_here(const oct_operation& operation, const cpu::Signature& signature) {
  if (operation.operands < signature.required || operation.operands > signature.operands) {
    throw std::invalid_argument(std::string(signature.name) + " has " + std::to_string(operation.operands) +
                                " operands where " + std::to_string(signature.required) + " to " +
                                std::to_string(signature.operands) + " are expected");
  }
  oct_operation clean = {};
  clean.struct_size = sizeof clean;
  clean.op = operation.op;
  clean.operands = signature.operands;
  for (int k = 0; k < operation.operands; ++k) {
    const oct_matrix& m = operation.operand[k];
    if (m.rows != 0) clean.operand[k] = {m.dtype, 0, m.rows, m.columns, m.pitch};
  }
  for (int i = 0; i < 8; ++i) clean.i[i] = operation.i[i];
  for (int i = 0; i < 4; ++i) clean.f[i] = operation.f[i];
  const Judge judge = {clean, signature};
  judge.layouts();
  switch (clean.op) {
    case OCT_GEMM:
      check_fp8_gemm(judge);
      break;
    case OCT_QUANTIZE:
      check_quantize(judge);
      break;
    case OCT_AMAX:
      check_amax(judge);
      break;
    case OCT_UPDATE_SCALE:
      check_update_scale(judge);
      break;
    case OCT_CURRENT_SCALE:
      check_current_scale(judge);
      break;
    default:
      check_transpose(judge);
  }
  return clean;
}

/// Operands that may be doubles here: scalars of the step, and what is only moved.
bool may_be_double(const oct_operation& op, int k) {
  switch (op.op) {
    case OCT_FILL:
      return true;
    case OCT_COPY:
      return op.operand[0].dtype == op.operand[1].dtype;
    case OCT_LOSS:
      return k == 3 || k == 5;
    case OCT_SUM_OF_SQUARES:
      return k == 1;
    case OCT_CLIP:
      return true;
    case OCT_ADAMW:
      return k == 1 || k == 2;
    default:
      return false;
  }
}

}  // namespace

bool is_fp8(std::int32_t dtype) {
  return dtype == OCT_E4M3 || dtype == OCT_E5M2;
}

oct_operation checked(const oct_operation& operation) {
  const cpu::Signature* signature = own(operation.op);
  const bool is_plain_gemm =
      operation.op == OCT_GEMM && !(operation.operands > 0 && is_fp8(operation.operand[0].dtype));
  if (signature != nullptr && !is_plain_gemm) return checked_here(operation, *signature);
  const oct_operation clean = cpu::checked(operation);
  for (int k = 0; k < clean.operands; ++k) {
    if (clean.operand[k].rows == 0 || clean.operand[k].dtype != OCT_F64 || may_be_double(clean, k)) continue;
    throw plugin::Failure(OCT_UNSUPPORTED, std::string(operation_name(clean)) + ": operand " +
                                               std::to_string(k) + " (" + operand_name(clean, k) +
                                               ") is of type f64, in which this device does not compute");
  }
  if (clean.op == OCT_ADAMW && clean.operands > 7 && clean.operand[7].rows > 0)
    throw plugin::Failure(OCT_UNSUPPORTED, "adamw: the largest weight is an operation of its own, amax");
  return clean;
}

const char* operation_name(const oct_operation& operation) {
  return signature_of(operation).name;
}

const char* operand_name(const oct_operation& operation, int operand) {
  return signature_of(operation).operand[operand];
}

}  // namespace octachoron::cuda
