#pragma once
/// The commands of the program and their options, as data.
#include <cstddef>
#include <string>
#include <vector>

namespace octachoron {

struct OptionSpec {
  std::string name;      ///< without "--"
  std::string argument;  ///< "FILE"; empty: a switch
  std::string help;
  bool repeatable = false;
  bool available = true;  ///< false: a later version brings it
};

struct CommandSpec {
  std::string name;         ///< "train", "checkpoint list"
  std::string arguments;    ///< as in the usage text
  std::size_t least, most;  ///< how many positional arguments
  std::string help;         ///< one line
  std::vector<OptionSpec> options;
  bool available = true;  ///< false: a later version brings it
};

const std::vector<CommandSpec>& command_table();

}  // namespace octachoron
