#pragma once
/// The command line as plain data. Pure: opens no file, prints nothing unless asked to.
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace octachoron {

struct CommandLine {
  std::string command;                  ///< "train", "checkpoint list", ...; empty: none was given
  std::string parameter_file;           ///< of train, plan and compare
  std::vector<std::string> positional;  ///< of the other commands, as many as the command takes
  std::vector<std::string> overrides;   ///< each --set, as it stands
  bool check = false;                   ///< train
  int ranks = 0;                        ///< plan; 0: not given
  std::string json;                     ///< plan, compare, evaluate; empty: not given
  std::string draw;                     ///< plan; empty: not given
  std::string output;                   ///< data import, never empty there; compare; empty: not given
  std::string from = "auto";            ///< data import
  std::int64_t vocab = 0;               ///< data import; 0: not given
  std::int64_t separator = -1;          ///< data import; -1: not given
  std::int64_t sequence = 0;            ///< data info; 0: not given
  std::string data;                     ///< evaluate; empty: not given
  std::int64_t batches = -1;            ///< evaluate; -1: not given
  std::vector<std::string> variants;    ///< compare, each --variant as it stands
  std::int64_t steps = 0;               ///< compare; 0: not given
  bool help = false, version = false;   ///< asked for: nothing else need be complete
};

/// \param arguments without the program's name
/// \throws Error(usage) naming the nearest command or option, or what "is not available in this version"
CommandLine parse_command_line(const std::vector<std::string>& arguments);
CommandLine parse_command_line(int argc, const char* const* argv);

/// \param command as in CommandLine; "checkpoint" and "data" describe their group; empty: all commands
std::string usage_text(const std::string& command);

/// Answers --help and --version on `out` (done) and an empty command line on `err` (usage); otherwise there
/// is work to do and nothing is returned.
std::optional<ExitStatus> answer_without_work(const CommandLine& line, std::ostream& out, std::ostream& err);

}  // namespace octachoron
