#pragma once
/// The keys of [precision] as a recipe receives them: lines "key=value", names without the section.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/plugin/abi.h"

namespace octachoron::plugin {

struct PrecisionOptions {
  std::string format = "hybrid", amax_algorithm = "max", head = "bf16", exclude, fallback = "refuse";
  int margin = 0, amax_history = 16;
  std::int64_t high_precision_first = 0, high_precision_last = 0;

  /// Keys that were set to something else than their default, "precision.head, precision.margin"; empty if none.
  /// \param among the keys that count; none: all
  std::string changed(std::initializer_list<std::string_view> among = {}) const {
    std::string keys;
    const auto note = [&](bool is, const char* key) {
      const bool counts = among.size() == 0 || std::find(among.begin(), among.end(), key) != among.end();
      if (is && counts) keys += (keys.empty() ? "precision." : ", precision.") + std::string(key);
    };
    const PrecisionOptions defaults;
    note(format != defaults.format, "format");
    note(margin != defaults.margin, "margin");
    note(amax_history != defaults.amax_history, "amax_history");
    note(amax_algorithm != defaults.amax_algorithm, "amax_algorithm");
    note(head != defaults.head, "head");
    note(exclude != defaults.exclude, "exclude");
    note(high_precision_first != defaults.high_precision_first, "high_precision_first");
    note(high_precision_last != defaults.high_precision_last, "high_precision_last");
    note(fallback != defaults.fallback, "fallback");
    return keys;
  }
};

/// One line if `keys`, as of changed(), are there in vain.
inline void warn_without_effect(const oct_host& host, const std::string& keys, const char* why) {
  if (keys.empty() || host.log == nullptr) return;
  const std::string line = keys + " has no effect (" + why + "); remove it, or choose another precision";
  host.log(host.user, 1, line.c_str());
}

[[noreturn]] inline void refuse_option(const std::string& key, const std::string& value,
                                       const std::string& legal) {
  throw std::invalid_argument("precision." + key + " = '" + value + "' is not " + legal);
}

/// A whole number in first..last that takes up the whole of `value`.
inline std::int64_t whole_number(const std::string& key, const std::string& value, std::int64_t first,
                                 std::int64_t last) {
  std::int64_t number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stop != end || number < first || number > last)
    refuse_option(key, value, "a whole number in " + std::to_string(first) + " .. " + std::to_string(last));
  return number;
}

inline std::string one_of(const std::string& key, const std::string& value,
                          std::initializer_list<const char*> legal) {
  std::string list;
  for (const char* choice : legal) {
    if (value == choice) return value;
    list += (list.empty() ? "" : ", ") + std::string(choice);
  }
  refuse_option(key, value, "one of " + list);
}

/// \returns whether the key is one of [precision]. \throws std::invalid_argument naming key, value and what
/// is legal
inline bool set_option(PrecisionOptions& options, const std::string& key, const std::string& value) {
  constexpr std::int64_t many = 1 << 30;
  if (key == "format")
    options.format = one_of(key, value, {"hybrid", "e4m3"});
  else if (key == "margin")
    options.margin = int(whole_number(key, value, 0, 16));
  else if (key == "amax_history")
    options.amax_history = int(whole_number(key, value, 1, 4096));
  else if (key == "amax_algorithm")
    options.amax_algorithm = one_of(key, value, {"max", "most_recent", "frozen"});
  else if (key == "head")
    options.head = one_of(key, value, {"bf16", "fp8"});
  else if (key == "exclude")
    options.exclude = value;
  else if (key == "high_precision_first")
    options.high_precision_first = whole_number(key, value, 0, many);
  else if (key == "high_precision_last")
    options.high_precision_last = whole_number(key, value, 0, many);
  else if (key == "fallback")
    options.fallback = one_of(key, value, {"refuse", "bf16"});
  else
    return false;
  return true;
}

/// For recipes without keys of their own. \throws std::invalid_argument naming the key that is unknown or
/// wrong
inline PrecisionOptions parse_precision_options(const std::string& text) {
  PrecisionOptions options;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    const auto equals = line.find('=');
    if (equals == std::string::npos)
      throw std::invalid_argument("the option '" + line + "' is not key=value");
    const std::string key = line.substr(0, equals);
    if (!set_option(options, key, line.substr(equals + 1)))
      throw std::invalid_argument("the key '" + key + "' is unknown to this recipe");
  }
  return options;
}

}  // namespace octachoron::plugin
