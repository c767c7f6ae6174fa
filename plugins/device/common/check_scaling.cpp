/// Judgement of the operations that FP8 brings.
#include "core/plugin/export.h"
#include "plugins/device/common/check.h"
#include "plugins/device/common/checker.h"

namespace octachoron::device_common {
namespace {

constexpr std::int64_t kMany = std::int64_t(1) << 62;

void check_single(const Checker& c, int k, int type) {
  c.types(k, {type});
  c.shape(k, 1, 1);
}

/// x [1,n] holds elements i1 .. i1 + n of a sequence; those of i2 .. i3 are treated.
void check_window(const Checker& c) {
  c.require(c.rows(0) <= 1, c.operand(0) + " has more than the one row of a window");
  c.range(1, 0, kMany - c.columns(0));
  c.range(2, 0, kMany);
  c.range(3, c.op.i[2], kMany);
}

void check_codes(const Checker& c, int k) {
  if (c.present(k)) c.types(k, {OCT_E4M3, OCT_E5M2});
}
void check_record(const Checker& c, int amax, int counters) {
  if (c.present(amax)) check_single(c, amax, OCT_U32);
  c.optional(counters, 1, 3);
  if (c.present(counters)) c.types(counters, {OCT_U64});
}

void check_rule(const Checker& c) {
  c.require(c.op.f[0] > 0 && c.op.f[0] <= 3e38, "attribute f0 (format maximum) is not a positive number");
  c.range(0, 0, 100);
}

}  // namespace

bool is_fp8(int type) {
  return type == OCT_E4M3 || type == OCT_E5M2;
}

void check_fused_cast(const Checker& c) {
  const FusedCast& cast = c.cast();
  check_single(c, cast.scale(), OCT_F32);
  c.shape(cast.row(), c.rows(0), c.columns(0) / (c.op.op == OCT_SWIGLU ? 2 : 1));
  check_codes(c, cast.row());
  check_record(c, cast.amax(), cast.counters());
}

void check_quantize(const Checker& c) {
  c.flag(0);
  c.storage_type(0);
  check_single(c, 1, OCT_F32);
  c.require(c.rows(0) == 0 || c.present(2) || c.present(3), "neither operand 2 (row) nor operand 3 (column)");
  c.optional(2, c.rows(0), c.columns(0));
  c.optional(3, c.columns(0), c.rows(0));
  for (const int k : {2, 3}) check_codes(c, k);
  if (c.present(2)) c.same_type({3}, 2);
  check_record(c, 4, 5);
  if (c.op.i[0] == 0) return;
  check_window(c);
  c.require(!c.present(3), "a window has no operand 3 (column)");
}

void check_amax(const Checker& c) {
  c.flag(0);
  c.flag(4);
  c.storage_type(0);
  check_single(c, 1, OCT_U32);
  if (c.op.i[4] == 1) check_window(c);
}

void check_update_scale(const Checker& c) {
  check_rule(c);
  c.range(1, OCT_AMAX_MAX, OCT_AMAX_FROZEN);
  c.flag(2);
  c.types(0, {OCT_U32});
  c.types(1, {OCT_F32});
  c.types(2, {OCT_F32});
  c.shape(0, c.rows(0), 1);
  c.shape(1, c.rows(0), c.columns(1));
  c.shape(2, c.rows(0), 1);
  c.require(c.columns(1) > 0, "operand 1 (history) has no columns");
}

void check_current_scale(const Checker& c) {
  check_rule(c);
  check_single(c, 0, OCT_U32);
  c.require(c.present(1) == c.present(2), "operands 1 (history) and 2 (kept) come together");
  if (c.present(1)) {
    c.types(1, {OCT_F32});
    c.shape(1, 1, c.columns(1));
    check_single(c, 2, OCT_F32);
  }
  check_single(c, 3, OCT_F32);
}

void check_transpose(const Checker& c) {
  const std::int64_t bytes = size_of(DType(c.type(0)));
  c.require(bytes == 1 || bytes == 2 || bytes == 4, c.operand(0) + " has elements of more than 4 bytes");
  c.types(1, {c.type(0)});
  c.shape(1, c.columns(0), c.rows(0));
}

void check_gemm_scales(const Checker& c) {
  const bool fp8 = is_fp8(c.type(0));
  if (fp8) {
    c.types(1, {OCT_E4M3, OCT_E5M2});
  } else {
    c.storage_type(0);
    c.types(1, {c.type(0)});
  }
  for (const int k : {2, 3}) {
    c.require(c.present(k) == fp8, c.operand(k) + (fp8 ? " is missing: operands in FP8 come with both scales"
                                                       : " is there: scales belong to operands in FP8"));
    if (fp8) check_single(c, k, OCT_F32);
  }
}

}  // namespace octachoron::device_common
