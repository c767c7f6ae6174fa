#pragma once
/// From a parameter file and the command line to Parameters, and back to text.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/config/parameters.h"

namespace octachoron {

/// One row of the one table of parameters: documentation, defaults and parsing all come from it.
struct ParameterInfo {
  std::string key;  ///< "run.steps"
  std::string unit, legal, default_text, help;
  /// Throws Error(usage) naming what is legal.
  std::function<void(Parameters&, const std::string& value)> set;
  /// Text that set() accepts; empty where the value is not given and finalize() has not resolved it.
  std::function<std::string(const Parameters&)> get;
};
const std::vector<ParameterInfo>& parameter_table();

/// Line tokenizer: sections, `key = value`, comments, CRLF. Keys come back as section.key.
struct ParameterLine {
  std::string key, value;
  int line = 0;
};
/// \throws Error(usage) with file and line
std::vector<ParameterLine> tokenize(const std::string& text, const std::string& file);

/// Where each key that was given came from, for messages: "file:12" or "--set".
using ParameterOrigins = std::map<std::string, std::string>;

struct ParsedParameters {
  Parameters values;
  ParameterOrigins origins;
};
/// Reads the file, applies `overrides` ("section.key=value") after it. Unknown and duplicate keys are refused
/// with file, line and the nearest known key. Defaults are not yet resolved.
ParsedParameters parse_parameters(const std::string& file, const std::vector<std::string>& overrides);
ParsedParameters parse_parameter_text(const std::string& text, const std::string& file,
                                      const std::vector<std::string>& overrides);

/// The effective parameters as a parameter file that reads back to the same values.
std::string format_parameters(const Parameters& parameters);

/// Markdown of the table, for core/docs/parameters.md.
std::string parameter_documentation();

}  // namespace octachoron
