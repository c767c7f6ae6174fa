#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/config/parameter_file.h"
#include "core/config/values.h"

namespace octachoron {

namespace {

bool is_blank(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

/// A '#' or ';' inside a word (a path, a glob) is part of it.
std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i)
    if ((line[i] == '#' || line[i] == ';') && (i == 0 || is_blank(line[i - 1]))) return line.substr(0, i);
  return line;
}

bool is_word(std::string_view text) {
  return !text.empty() && std::none_of(text.begin(), text.end(), is_blank);
}

std::string section_name(const std::string& line, const std::string& where) {
  const std::string name = line.back() == ']' ? trim(std::string_view(line).substr(1, line.size() - 2)) : "";
  if (!is_word(name) || name.find_first_of("[]=") != std::string::npos)
    fail(ExitStatus::usage, where, ": '", line,
         "' is not a section (a line that begins with '[' must be [NAME]); ",
         "write it as [run], for example");
  return name;
}

ParameterLine key_and_value(const std::string& line, const std::string& section, const std::string& where) {
  const std::size_t equals = line.find('=');
  if (equals == std::string::npos)
    fail(ExitStatus::usage, where, ": '", line,
         "' is no parameter (there is no '=' in it); write key = value");
  const std::string key = trim(line.substr(0, equals)), value = trim(line.substr(equals + 1));
  if (!is_word(key))
    fail(ExitStatus::usage, where, ": '", line,
         "' has no usable key (a key is one word before the '='); write key = value");
  if (section.empty())
    fail(ExitStatus::usage, where, ": '", key,
         "' belongs to no section (no [section] line stands above it); ",
         "put it under its section, [run] for example");
  if (value.empty())
    fail(ExitStatus::usage, where, ": ", section, ".", key, " has no value (nothing follows the '='); ",
         "give a value or remove the line to get the default");
  return {section + "." + key, value, 0};
}

}  // namespace

std::vector<ParameterLine> tokenize(const std::string& text, const std::string& file) {
  std::vector<ParameterLine> result;
  std::string section;
  std::string_view rest = text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);  // the byte order mark some editors write
  for (int number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string line = trim(without_comment(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    const std::string where = octachoron::text(file, ":", number);
    if (line.front() == '[') {
      section = section_name(line, where);
    } else {
      result.push_back(key_and_value(line, section, where));
      result.back().line = number;
    }
  }
  return result;
}

}  // namespace octachoron
