#pragma once
/// The two FP8 formats and their scales (contract 1.4), on the host: plain and slow, what devices are tested
/// against.
#include <cstdint>

#include "core/plugin/dtype.h"

namespace octachoron {

/// OCT_E4M3 or OCT_E5M2; the functions below fail with ExitStatus::internal for any other type.
bool is_fp8(DType type);

/// The largest finite value, 448 or 57344.
float format_maximum(DType format);

/// The code nearest to `value`, ties to even. What rounds beyond the largest finite value, and infinity,
/// becomes that value; NaN becomes 0x7f.
std::uint8_t encode_fp8(DType format, float value);
/// The value of a code, exact. E5M2 has infinities, though encode_fp8 makes none.
float decode_fp8(DType format, std::uint8_t code);

/// Whether a finite value that reaches the cast as `scaled` counts as saturated: it rounds beyond the
/// largest.
bool saturates(DType format, float scaled);

/// The largest scale; its inverse is still a normal number.
inline constexpr float kLargestScale = 0x1p126f;
/// (format maximum) * 2^-margin / amax in FP32, at most kLargestScale. \param amax positive and finite
float scale_of(float amax, float format_maximum, int margin);

}  // namespace octachoron
