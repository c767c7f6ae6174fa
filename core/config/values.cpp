#include "core/config/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace octachoron {

namespace {

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// `text` must be all digits, between `least` and `most` of them.
std::optional<std::int64_t> parse_digits(std::string_view text, std::size_t least, std::size_t most) {
  if (text.size() < least || text.size() > most ||
      !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return parse_integer(text);
}

}  // namespace

std::string trim(std::string_view text) {
  constexpr const char* blanks = " \t\r\f\v";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(blanks) - begin + 1));
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return parse_whole<std::int64_t>(text);
}

std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  return parse_whole<std::uint64_t>(text);
}

std::optional<double> parse_real(std::string_view text) {
  const std::optional<double> value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<bool> parse_switch(std::string_view text) {
  if (text == "on" || text == "true") return true;
  if (text == "off" || text == "false") return false;
  return std::nullopt;
}

std::optional<std::int64_t> parse_duration(std::string_view text) {
  std::int64_t days = 0;
  const std::size_t dash = text.find('-');
  const bool with_days = dash != std::string_view::npos;
  if (with_days) {
    const auto parsed = parse_digits(text.substr(0, dash), 1, 5);
    if (!parsed) return std::nullopt;
    days = *parsed;
    text.remove_prefix(dash + 1);
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.size() != colon + 6 || text[colon + 3] != ':')
    return std::nullopt;
  const auto hours = parse_digits(text.substr(0, colon), 1, 4);
  const auto minutes = parse_digits(text.substr(colon + 1, 2), 2, 2);
  const auto seconds = parse_digits(text.substr(colon + 4, 2), 2, 2);
  if (!hours || !minutes || !seconds || *minutes > 59 || *seconds > 59) return std::nullopt;
  if (with_days && *hours > 23) return std::nullopt;
  return ((days * 24 + *hours) * 60 + *minutes) * 60 + *seconds;
}

std::optional<std::vector<std::string>> parse_list(std::string_view text) {
  std::vector<std::string> entries;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    entries.push_back(trim(text.substr(begin, end - begin)));
    if (entries.back().empty()) return std::nullopt;
    begin = end + 1;
  }
  return entries;
}

std::optional<std::vector<std::int64_t>> parse_integers(std::string_view text) {
  const auto entries = parse_list(text);
  if (!entries) return std::nullopt;
  std::vector<std::int64_t> values;
  for (const std::string& entry : *entries) {
    const auto value = parse_integer(entry);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::optional<std::vector<std::int64_t>> parse_steps(std::string_view text) {
  const auto entries = parse_list(text);
  if (!entries) return std::nullopt;
  std::vector<std::int64_t> steps;
  for (const std::string& entry : *entries) {
    const std::size_t dash = entry.find('-');
    const auto first = parse_integer(trim(entry.substr(0, dash)));
    const auto last = dash == std::string::npos ? first : parse_integer(trim(entry.substr(dash + 1)));
    if (!first || !last || *first < 1 || *last < *first) return std::nullopt;
    if (*last - *first >= kMostSteps - std::int64_t(steps.size())) return std::nullopt;
    for (std::int64_t offset = 0; offset <= *last - *first; ++offset) steps.push_back(*first + offset);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

std::string format_real(double value) {
  char buffer[32];
  std::string result(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  const std::size_t exponent = result.find('e');
  if (exponent != std::string::npos && result[exponent + 2] == '0') result.erase(exponent + 2, 1);  // 1e-05
  return result;
}

std::string format_duration(std::int64_t seconds) {
  const long long days = seconds / 86400, rest = seconds % 86400;
  char buffer[64];
  if (days > 0)
    std::snprintf(buffer, sizeof buffer, "%lld-%02lld:%02lld:%02lld", days, rest / 3600, rest / 60 % 60,
                  rest % 60);
  else
    std::snprintf(buffer, sizeof buffer, "%02lld:%02lld:%02lld", rest / 3600, rest / 60 % 60, rest % 60);
  return buffer;
}

std::string format_steps(const std::vector<std::int64_t>& ascending) {
  std::vector<std::string> entries;
  for (std::size_t begin = 0; begin < ascending.size();) {
    std::size_t end = begin;
    while (end + 1 < ascending.size() && ascending[end + 1] == ascending[end] + 1) ++end;
    entries.push_back(std::to_string(ascending[begin]));
    if (end > begin) entries.back().append("-").append(std::to_string(ascending[end]));
    begin = end + 1;
  }
  return join(entries);
}

std::string format_integers(const std::vector<std::int64_t>& values, const char* separator) {
  std::vector<std::string> entries;
  for (std::int64_t value : values) entries.push_back(std::to_string(value));
  return join(entries, separator);
}

std::string join(const std::vector<std::string>& entries, const char* separator) {
  std::string result;
  for (const std::string& entry : entries) {
    if (!result.empty()) result += separator;
    result += entry;
  }
  return result;
}

}  // namespace octachoron
