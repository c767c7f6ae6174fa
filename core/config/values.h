#pragma once
/// Strict conversion between the text of a value and its type: the whole text must parse, or nothing is
/// returned.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octachoron {

/// Without blanks, tabs, carriage returns at both ends.
std::string trim(std::string_view text);

/// Decimal digits with an optional minus sign: no blanks, '+', exponent or thousands separators.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<std::uint64_t> parse_unsigned(std::string_view text);
/// A finite number in fixed or scientific notation.
std::optional<double> parse_real(std::string_view text);
/// on, off, true, false
std::optional<bool> parse_switch(std::string_view text);
/// [D-]HH:MM:SS in seconds. Hours stay below 24 where days are given, below 10000 otherwise.
std::optional<std::int64_t> parse_duration(std::string_view text);
/// Entries separated by commas, blanks around them dropped, none of them empty.
std::optional<std::vector<std::string>> parse_list(std::string_view text);
std::optional<std::vector<std::int64_t>> parse_integers(std::string_view text);

inline constexpr std::int64_t kMostSteps = 1 << 20;  ///< entries of a step list
/// "1-3,10": numbers and ranges by comma, each >= 1; ascending, without repetitions, at most kMostSteps.
std::optional<std::vector<std::int64_t>> parse_steps(std::string_view text);

/// The shortest text that reads back as the same number.
std::string format_real(double value);
std::string format_duration(std::int64_t seconds);
std::string format_steps(const std::vector<std::int64_t>& ascending);
std::string format_integers(const std::vector<std::int64_t>& values, const char* separator = ",");
std::string join(const std::vector<std::string>& entries, const char* separator = ",");

}  // namespace octachoron
