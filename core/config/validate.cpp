#include "core/config/validate.h"

#include "core/base/error.h"
#include "core/config/availability.h"
#include "core/config/constraints.h"
#include "core/config/values.h"

namespace octachoron {

namespace {

void check_required(const Parameters& parameters) {
  std::vector<std::string> missing;
  const bool reads_data = parameters.example.pattern == ExamplePattern::none;
  for (const ParameterInfo& info : parameter_table()) {
    if (info.key == "data.train" && !reads_data) continue;
    if (info.default_text == "required" && info.get(parameters).empty()) missing.push_back(info.key);
  }
  if (missing.empty()) return;
  fail(ExitStatus::usage, join(missing, ", "), missing.size() == 1 ? " is" : " are",
       " missing (there is no default); add to the parameter file or use --set");
}

/// Parameters may come from elsewhere than a file, so every value passes its own row once more.
void check_ranges(const Parameters& parameters) {
  Parameters scratch;
  for (const ParameterInfo& info : parameter_table())
    if (const std::string value = info.get(parameters); !value.empty()) info.set(scratch, value);
}

}  // namespace

void validate(const Parameters& parameters, int ranks) {
  check_required(parameters);
  check_ranges(parameters);
  refuse_unavailable(parameters);
  check_constraints(parameters, ranks);
}

}  // namespace octachoron
