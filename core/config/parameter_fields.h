#pragma once
/// Makers of the rows of the parameter table: each joins a field of Parameters to its strict conversion, its
/// range and the text of both. Private to core/config.
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/config/parameter_file.h"
#include "core/config/suggest.h"
#include "core/config/values.h"

namespace octachoron::fields {

/// What a row says about its key. `fallback` is the default where the struct's initial value does not say it;
/// `note` is what the range alone does not say.
struct About {
  std::string key, unit, help;
  std::string fallback = "", note = "";
};

/// Where a value lives.
template <class Section, class T>
struct Field {
  Section Parameters::*section;
  T Section::*member;
  T& in(Parameters& parameters) const { return parameters.*section.*member; }
  const T& in(const Parameters& parameters) const { return parameters.*section.*member; }
};

[[noreturn]] inline void refuse(const std::string& key, const std::string& value, const std::string& problem,
                                const std::string& legal, const std::string& advice) {
  fail(ExitStatus::usage, key, " = '", value, "' ", problem, " (legal: ", legal, "); ", advice);
}

/// Fills in what can be derived from the getter: the default's text.
inline ParameterInfo row(const About& about, const std::string& range,
                         std::function<void(Parameters&, const std::string&)> set,
                         std::function<std::string(const Parameters&)> get) {
  const std::string legal =
      range.empty() || about.note.empty() ? range + about.note : range + "; " + about.note;
  const std::string fallback = about.fallback.empty() ? get(Parameters{}) : about.fallback;
  return {about.key, about.unit, legal, fallback, about.help, std::move(set), std::move(get)};
}

template <class T>
struct Range {
  T least = std::numeric_limits<T>::lowest(), most = std::numeric_limits<T>::max();
  bool even = false;                             ///< integers only
  bool above_least = false, below_most = false;  ///< the end itself is not legal
};

template <class T>
std::string number_text(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return format_real(value);
  else
    return std::to_string(value);
}

template <class T>
std::string range_text(const Range<T>& range) {
  const bool bounded = range.most != std::numeric_limits<T>::max();
  const std::string least = number_text(range.least), most = number_text(range.most);
  if (range.below_most) return "[" + least + ", " + most + ")";
  return (bounded ? least + " .. " + most : (range.above_least ? "> " : ">= ") + least) +
         (range.even ? ", even" : "");
}

template <class T>
bool is_legal(T value, const Range<T>& range) {
  if (value < range.least || value > range.most) return false;
  if (range.above_least && value == range.least) return false;
  if (range.below_most && value == range.most) return false;
  if constexpr (std::is_integral_v<T>) return !range.even || value % 2 == 0;
  return true;
}

template <class T>
std::string nearest_legal(T value, const Range<T>& range) {
  if constexpr (std::is_integral_v<T>) {
    if (value < range.least)
      return "choose " + number_text(T(range.least + (range.even ? range.least % 2 : 0)));
    if (value > range.most) return "choose " + number_text(range.most);
    if (range.even && value == range.most) return "choose " + number_text(T(value - 1));
    if (range.even) return "choose " + number_text(T(value - 1)) + " or " + number_text(T(value + 1));
  }
  return "choose a value in the legal range";
}

template <class T>
T number(const std::string& key, const std::string& value, const Range<T>& range, const std::string& legal) {
  if constexpr (std::is_floating_point_v<T>) {
    const auto parsed = parse_real(value);
    if (!parsed)
      refuse(key, value, "is not a finite number", legal, "write it as 0.001 or 1e-3, without a unit or ','");
    if (!is_legal<T>(*parsed, range))
      refuse(key, value, "is out of range", legal, nearest_legal<T>(*parsed, range));
    return *parsed;
  } else if constexpr (std::is_unsigned_v<T>) {
    const auto parsed = parse_unsigned(value);
    if (!parsed)
      refuse(key, value, "is not a whole number in range", legal, "write its digits, without a sign or ','");
    return *parsed;
  } else {
    const auto parsed = parse_integer(value);
    if (!parsed)
      refuse(key, value, "is not a whole number", legal, "write its digits, without a unit or ','");
    const Range<std::int64_t> wide{range.least, range.most, range.even};
    if (!is_legal(*parsed, wide))
      refuse(key, value,
             range.even && *parsed > range.least && *parsed < range.most ? "is odd" : "is out of range",
             legal, nearest_legal(*parsed, wide));
    return T(*parsed);
  }
}

/// An integer or a real. \param unset the value that means "resolved by finalize()"; its text is empty
template <class Section, class T>
ParameterInfo number(const About& about, Field<Section, T> field, const Range<T>& range) {
  const std::string legal = range_text(range);
  return row(
      about, legal,
      [=, key = about.key](Parameters& p, const std::string& value) {
        field.in(p) = number(key, value, range, legal);
      },
      [=](const Parameters& p) { return number_text(field.in(p)); });
}

/// As number(), with a value that means "not given": its text is `unset_text`, which, unless empty, is legal
/// too.
template <class Section, class T>
ParameterInfo number_or(const About& about, Field<Section, T> field, const Range<T>& range,
                        std::type_identity_t<T> unset, const std::string& unset_text) {
  const std::string legal = (unset_text.empty() ? "" : unset_text + ", ") + range_text(range);
  return row(
      about, legal,
      [=, key = about.key](Parameters& p, const std::string& value) {
        field.in(p) = !unset_text.empty() && value == unset_text ? unset : number(key, value, range, legal);
      },
      [=](const Parameters& p) { return field.in(p) == unset ? unset_text : number_text(field.in(p)); });
}

template <class Section>
ParameterInfo on_off(const About& about, Field<Section, bool> field) {
  return row(
      about, "on, off",
      [=, key = about.key](Parameters& p, const std::string& value) {
        const auto parsed = parse_switch(value);
        if (!parsed) refuse(key, value, "is not a switch", "on, off, true, false", "write on or off");
        field.in(p) = *parsed;
      },
      [=](const Parameters& p) { return std::string(field.in(p) ? "on" : "off"); });
}

/// One of a few words, stored as a value each. T is an enumeration or std::string.
template <class Section, class T>
ParameterInfo choice(const About& about, Field<Section, T> field,
                     std::vector<std::pair<std::string, T>> choices) {
  std::vector<std::string> words;
  for (const auto& entry : choices) words.push_back(entry.first);
  const std::string legal = join(words, ", ");
  return row(
      about, legal,
      [=, key = about.key](Parameters& p, const std::string& value) {
        for (const auto& [word, meaning] : choices)
          if (word == value) return void(field.in(p) = meaning);
        refuse(key, value, "is not known", legal, "choose " + nearest_name(value, words));
      },
      [=](const Parameters& p) {
        for (const auto& [word, meaning] : choices)
          if (meaning == field.in(p)) return word;
        return std::string("(none)");
      });
}

/// Free text, checked by `is_legal`.
template <class Section>
ParameterInfo word(const About& about, Field<Section, std::string> field,
                   bool (*is_legal)(const std::string&)) {
  return row(
      about, "",
      [=, key = about.key, legal = about.note](Parameters& p, const std::string& value) {
        if (!is_legal(value)) refuse(key, value, "is not accepted", legal, "choose another one");
        field.in(p) = value;
      },
      [=](const Parameters& p) { return field.in(p); });
}

/// A list. \param parse from values.h  \param format its inverse
template <class Section, class T>
ParameterInfo list(const About& about, Field<Section, std::vector<T>> field,
                   std::optional<std::vector<T>> (*parse)(std::string_view),
                   std::string (*format)(const std::vector<T>&)) {
  return row(
      about, "",
      [=, key = about.key, legal = about.note](Parameters& p, const std::string& value) {
        auto parsed = parse(value);
        if (!parsed) refuse(key, value, "is not such a list", legal, "separate the entries by single commas");
        field.in(p) = std::move(*parsed);
      },
      [=](const Parameters& p) { return format(field.in(p)); });
}

}  // namespace octachoron::fields
