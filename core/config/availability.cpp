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

void refuse_unavailable(const Parameters& parameters) {
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
