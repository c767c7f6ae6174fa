#include "core/numerics/formats.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace octachoron {
namespace {

struct Format {
  int mantissa, bias;
  int largest;  ///< code of the largest finite value
  bool infinities;
};

const Format& format_of(DType type) {
  static constexpr Format e4m3 = {3, 7, 0x7e, false}, e5m2 = {2, 15, 0x7b, true};
  if (type == OCT_E4M3) return e4m3;
  if (type == OCT_E5M2) return e5m2;
  fail(ExitStatus::internal, name(type), " is not an FP8 format (a fault of the program); please report it");
}

/// The code of a magnitude, as if there were no largest one.
int unbounded_code(const Format& format, double magnitude) {
  const int least = 1 - format.bias;  // exponent of the smallest normal number, and of all subnormals
  const int exponent = magnitude == 0 ? least : std::max(least, std::ilogb(magnitude));
  const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa - exponent));  // ties to even
  return ((exponent - least) << format.mantissa) + int(steps);
}

}  // namespace

bool is_fp8(DType type) {
  return type == OCT_E4M3 || type == OCT_E5M2;
}

float format_maximum(DType format) {
  return decode_fp8(format, std::uint8_t(format_of(format).largest));
}

std::uint8_t encode_fp8(DType type, float value) {
  const Format& format = format_of(type);
  if (std::isnan(value)) return 0x7f;
  const int code = std::isinf(value)
                       ? format.largest
                       : std::min(format.largest, unbounded_code(format, std::abs(double(value))));
  return std::uint8_t(code | (std::signbit(value) ? 0x80 : 0));
}

float decode_fp8(DType type, std::uint8_t code) {
  const Format& format = format_of(type);
  const int magnitude = code & 0x7f, field = magnitude >> format.mantissa;
  const int one = 1 << format.mantissa, fraction = magnitude & (one - 1);
  float value = field == 0 ? std::ldexp(float(fraction), 1 - format.bias - format.mantissa)
                           : std::ldexp(float(one + fraction), field - format.bias - format.mantissa);
  if (magnitude > format.largest) {
    value = format.infinities && fraction == 0 ? std::numeric_limits<float>::infinity()
                                               : std::numeric_limits<float>::quiet_NaN();
  }
  return (code & 0x80) != 0 ? -value : value;
}

bool saturates(DType type, float scaled) {
  const Format& format = format_of(type);
  if (std::isnan(scaled)) return false;
  return std::isinf(scaled) || unbounded_code(format, std::abs(double(scaled))) > format.largest;
}

float scale_of(float amax, float format_maximum, int margin) {
  return std::min(std::ldexp(format_maximum, -margin) / amax, kLargestScale);
}

}  // namespace octachoron
