#include "core/config/parameter_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/config/suggest.h"
#include "core/config/values.h"

namespace octachoron {

namespace {

constexpr std::string_view kPluginPrefix = "plugin.";

std::string section_of(const std::string& key) {
  return key.substr(0, key.rfind('.'));
}
std::string bare(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

const ParameterInfo* find_parameter(const std::string& key) {
  const auto& table = parameter_table();
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const auto& info) { return info.key == key; });
  return found == table.end() ? nullptr : &*found;
}

/// A typing error in the key weighs more than a wrong section: keys are what people remember.
int distance(const std::string& key, const std::string& known) {
  return 2 * edit_distance(bare(key), bare(known)) +
         std::min(3, edit_distance(section_of(key), section_of(known)));
}

[[noreturn]] void refuse_unknown(const std::string& key, const std::string& where) {
  std::vector<std::string> elsewhere;
  const ParameterInfo* nearest = &parameter_table().front();
  for (const ParameterInfo& info : parameter_table()) {
    if (bare(info.key) == bare(key)) elsewhere.push_back(info.key);
    if (distance(key, info.key) < distance(key, nearest->key)) nearest = &info;
  }
  if (!elsewhere.empty())
    fail(ExitStatus::usage, where, ": unknown key ", key, " ('", bare(key),
         "' stands in another section); did you mean ", join(elsewhere, " or "), "?");
  fail(ExitStatus::usage, where, ": unknown key ", key,
       " (a mistyped key would leave its default in force); did you mean ", nearest->key, "?");
}

/// \param key plugin.NAME.key
void set_plugin_key(Parameters& values, const std::string& key, const std::string& value,
                    const std::string& where) {
  const std::string rest = key.substr(kPluginPrefix.size());
  const std::size_t dot = rest.find('.');
  const std::string name = rest.substr(0, dot), own = dot == std::string::npos ? "" : rest.substr(dot + 1);
  if (name.empty() || name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos ||
      own.empty() || own.find_first_of("[]=#; \t") != std::string::npos)
    fail(ExitStatus::usage, where, ": ", key, " names no plugin's key (a plugin's name is of [a-z0-9-]); ",
         "write [plugin.NAME] above key = value");
  values.plugin[rest] = value;
}

void set_key(ParsedParameters& parsed, const std::string& key, const std::string& value,
             const std::string& where) {
  if (key.starts_with(kPluginPrefix)) {
    set_plugin_key(parsed.values, key, value, where);
  } else {
    const ParameterInfo* info = find_parameter(key);
    if (!info) refuse_unknown(key, where);
    try {
      info->set(parsed.values, value);
    } catch (const Error& error) {
      fail(error.status(), where, ": ", error.what());
    }
  }
  parsed.origins[key] = where;
}

/// "section.key=value", split at the first '='. The value must be one that a parameter file can hold, since
/// effective parameters are written as one.
std::pair<std::string, std::string> split_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string key = trim(text.substr(0, equals));
  if (equals == std::string::npos || key.empty())
    fail(ExitStatus::usage, "--set '", text,
         "' sets nothing (it must be section.key=value); write --set run.steps=100");
  const std::string value = trim(text.substr(equals + 1));
  if (value.empty())
    fail(ExitStatus::usage, "--set: ", key,
         " has no value (nothing follows the '='); give a value or leave it out");
  for (std::size_t i = 0; i < value.size(); ++i)
    if (value[i] == '\n' ||
        ((value[i] == '#' || value[i] == ';') && i > 0 && std::strchr(" \t\r\f\v", value[i - 1])))
      fail(ExitStatus::usage, "--set: the value of ", key,
           " cannot stand in a parameter file (it holds a line break, or '#' or ",
           "';' after a blank, which begins a comment there); choose another value");
  return {key, value};
}

void refuse_twice(const std::string& key, const std::string& where, const std::string& first) {
  fail(ExitStatus::usage, where, ": ", key, " is given twice (first at ", first, "); remove one of the two");
}

std::string read_file(const std::string& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    fail(ExitStatus::usage, "cannot read parameter file '", file, "' (it is a folder); give the file itself");
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream contents;
  if (stream.peek() != std::char_traits<char>::eof()) contents << stream.rdbuf();
  if (!stream.is_open() || stream.bad())
    fail(ExitStatus::usage, "cannot read parameter file '", file, "' (", std::strerror(errno),
         "); check the path");
  return contents.str();
}

}  // namespace

ParsedParameters parse_parameter_text(const std::string& text, const std::string& file,
                                      const std::vector<std::string>& overrides) {
  ParsedParameters parsed;
  parsed.values.run.name = std::filesystem::path(file).stem().string();
  for (const ParameterLine& line : tokenize(text, file)) {
    const std::string where = octachoron::text(file, ":", line.line);
    if (const auto given = parsed.origins.find(line.key); given != parsed.origins.end())
      refuse_twice(line.key, where, given->second);
    set_key(parsed, line.key, line.value, where);
  }
  for (const std::string& override : overrides) {
    const auto [key, value] = split_override(override);
    if (const auto given = parsed.origins.find(key);
        given != parsed.origins.end() && given->second == "--set")
      refuse_twice(key, "--set", "--set");
    set_key(parsed, key, value, "--set");
  }
  return parsed;
}

ParsedParameters parse_parameters(const std::string& file, const std::vector<std::string>& overrides) {
  return parse_parameter_text(read_file(file), file, overrides);
}

std::string format_parameters(const Parameters& parameters) {
  std::string result, section;
  const auto append = [&](const std::string& key, const std::string& value) {
    if (value.empty()) return;  // its default
    if (section_of(key) != section) {
      section = section_of(key);
      result += (result.empty() ? "[" : "\n[") + section + "]\n";
    }
    const bool looks_like_comment = value[0] == '#' || value[0] == ';';
    result += bare(key) + (looks_like_comment ? " =" : " = ") + value + "\n";
  };
  for (const ParameterInfo& info : parameter_table()) append(info.key, info.get(parameters));
  section.clear();
  for (const auto& [key, value] : parameters.plugin) append(std::string(kPluginPrefix) + key, value);
  return result;
}

}  // namespace octachoron
