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
        {"draw", "FILE", "also draw the dependences of one layer to FILE, as SVG"}}},
      {"compare",
       "PARAMS",
       1,
       1,
       "run variants side by side and name the layer that deviates, under mpirun or srun",
       {kSet,
        {"variant", "'NAME;KEY=VALUE;...'", "a variant, also NAME=FILE.ini; repeated, the first is the reference", true},
        {"steps", "N", "steps of each variant; else 10"},
        kJson,
        {"output", "DIRECTORY", "also write compare.txt and compare.json there"}}},
      later("scan"),
      later("report"),
      {"evaluate",
       "CHECKPOINT",
       1,
       1,
       "loss of a checkpoint on validation data, under mpirun or srun",
       {kSet,
        {"data", "FILE", "use these files (by comma) instead of the run's data.validation"},
        {"batches", "N", "global batches from the begin; 0: all; else the run's data.validate_batches"},
        kJson}},
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
       "FILE...",
       1,
       kMany,
       "join files into one token file (HDF5)",
       {{"output", "FILE", "the file to write (required)"},
        {"from", "FORMAT",
         "auto or text: bytes are ids; u16, u32: raw little-endian ids; ids: decimal numbers"},
        {"vocab", "N", "ids of the tokenizer; required but for text"},
        {"separator", "ID", "a document ends after this id, else with its file"}}},
      {"data info",
       "FILE...",
       1,
       kMany,
       "what data files hold",
       {{"sequence", "N", "also say how many samples of N tokens there are"}}},
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
