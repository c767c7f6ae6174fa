#include "core/config/availability.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/config/parameter_file.h"
#include "core/config/values.h"

namespace octachoron {

const std::vector<Availability>& availability_table() {
  static const std::vector<Availability> table = {
      {"grid.pp", {"1"}, "pipeline parallelism"},
      {"grid.cp", {"1"}, "context parallelism"},
      {"grid.virtual_stages", {"1"}, "pipeline parallelism"},
      {"parallel.schedule", {"1f1b"}, "pipeline parallelism"},
      {"parallel.recompute", {"none"}, "recomputation of activations"},
      {"data.format", {"auto", "text", "hdf5"}, "reading of token files of other programs"},
  };
  return table;
}

namespace {

// Plugins that later versions ship. One of the same name in the user's own folder is the user's business.
void refuse_later_plugins(const BackendParameters& backend) {
  if (!backend.plugin_path.empty()) return;
  const auto refuse = [](const char* key, const std::string& name, const char* instead) {
    fail(ExitStatus::usage, key, " = ", name, " is not available in this version (a later one brings it); use ", instead,
         ", or set backend.plugin_path to the folder of your own");
  };
  if (backend.device == "cuda") refuse("backend.device", backend.device, "cpu");
  if (backend.comm == "nccl") refuse("backend.comm", backend.comm, "mpi");
}

}  // namespace

void refuse_unavailable(const Parameters& parameters) {
  refuse_later_plugins(parameters.backend);
  for (const ParameterInfo& info : parameter_table())
    for (const Availability& row : availability_table()) {
      if (row.key != info.key) continue;
      const std::string value = info.get(parameters);
      if (std::find(row.available.begin(), row.available.end(), value) != row.available.end()) continue;
      const bool removable = row.available.front().empty();
      fail(ExitStatus::usage, row.key, " = ", value, " is not available in this version (a later one brings ",
           row.feature, "); ", removable ? "remove it" : "use " + join(row.available, " or "));
    }
}

}  // namespace octachoron
