#pragma once
/// Values as JSON writes them.
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace octachoron {

/// The shortest decimal that reads back the same; null if it is not finite.
inline std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return {digits, end};
}

/// Quoted, with what JSON does not allow inside escaped.
inline std::string json_text(const std::string& raw) {
  std::string out = "\"";
  for (const char c : raw) {
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", unsigned(std::uint8_t(c)));
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else
      out += std::uint8_t(c) < 0x20 ? std::string(code) : std::string(1, c);
  }
  return out + "\"";
}

}  // namespace octachoron
