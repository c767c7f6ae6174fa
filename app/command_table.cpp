#include "app/command_table.h"

#include <limits>

namespace octachoron {

namespace {

constexpr std::size_t kMany = std::numeric_limits<std::size_t>::max();

const OptionSpec kSet{"set", "SECTION.KEY=VALUE", "use this value instead of the file's; may be repeated",
                      true};
const OptionSpec kJson{"json", "FILE", "also write the result to FILE as JSON"};

CommandSpec later(const std::string& name) {
  return {name, "", 0, kMany, "", {}, false};
}

}  // namespace

const std::vector<CommandSpec>& command_table() {
  static const std::vector<CommandSpec> table = {
      {"train",
       "PARAMS",
       1,
       1,
       "train, under mpirun or srun",
       {kSet, {"check", "", "execute operation by operation and check that results are finite"}}},
      {"plan",
       "PARAMS",
       1,
       1,
       "say what a run would need and do, without a launch or a GPU",
       {kSet,
        {"ranks", "N", "plan for a launch of N ranks; the grid must fit them"},
        kJson,
        {"search", "", "", false, false},
        {"draw", "FILE", "", false, false}}},
      later("compare"),
      later("scan"),
      later("report"),
      later("evaluate"),
      later("sample"),
      {"checkpoint list", "DIRECTORY", 1, 1, "the checkpoints of a folder", {}},
      {"checkpoint show", "FILE", 1, 1, "what a checkpoint holds", {}},
      {"checkpoint verify",
       "FILE...",
       1,
       kMany,
       "compare checksums: exit status 0, or 4 if a file is unusable",
       {}},
      {"checkpoint diff", "FILE FILE", 2, 2, "compare two checkpoints: exit status 0 same, 4 different", {}},
      later("checkpoint export"),
      later("checkpoint import"),
      {"data import",
       "TEXT...",
       1,
       kMany,
       "join text files into one file of tokens",
       {{"output", "FILE", "the file to write (required)"}}},
      {"data info", "FILE...", 1, kMany, "what data files hold", {}},
      {"doctor",
       "",
       0,
       0,
       "what this machine can do, plugin by plugin, and why not",
       {{"calibrate", "", "", false, false}}},
  };
  return table;
}

}  // namespace octachoron
