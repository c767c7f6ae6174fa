#pragma once
/// Sizes and names of the element types of the ABI.
#include <cstdint>

#include "core/plugin/operations.h"

namespace octachoron {

using DType = oct_dtype;

constexpr std::int64_t size_of(DType type) {
  switch (type) {
    case OCT_F64:
    case OCT_U64:
      return 8;
    case OCT_F32:
    case OCT_I32:
    case OCT_U32:
      return 4;
    case OCT_BF16:
    case OCT_F16:
      return 2;
    default:
      return 1;
  }
}

constexpr const char* name(DType type) {
  constexpr const char* names[] = {"f32",  "f64", "bf16", "f16", "e4m3", "e5m2",
                                   "e8m0", "u8",  "i32",  "u32", "u64"};
  return type >= 0 && type < OCT_DTYPES ? names[type] : "?";
}

}  // namespace octachoron
