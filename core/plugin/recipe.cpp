#include "core/plugin/recipe.h"

#include <utility>

namespace octachoron {

Recipe::Recipe(PluginLibrary library, const oct_host& host, const std::string& options)
    : library_(std::move(library)) {
  const auto& table = library_.table<oct_precision_table>();
  library_.check(table.create(&host, options.c_str(), &handle_), "create");
  if (library_.has(&oct_precision_table::state_bytes)) {
    table.destroy(handle_);  // the destructor does not run
    fail(ExitStatus::usage, "precision plugin '", name(),
         "' has state of its own for checkpoints, which is not available in this version; use one without");
  }
  for (int role = 0; role < OCT_STORAGE_ROLES; ++role) {
    const std::int32_t type = table.storage(handle_, role);
    if (type < 0 || type >= OCT_DTYPES) {
      table.destroy(handle_);  // the destructor does not run
      fail(ExitStatus::environment, "precision plugin '", name(), "' gives no storage type (", type,
           " for role ", role, "); use a plugin built against this program");
    }
    storage_[role] = DType(type);
  }
}

Recipe::~Recipe() {
  if (handle_ != nullptr) library_.table<oct_precision_table>().destroy(handle_);
}

oct_quant_spec Recipe::spec(const oct_quant_query& query) const {
  oct_quant_spec spec{};
  spec.struct_size = sizeof spec;
  library_.check(library_.table<oct_precision_table>().spec(handle_, &query, &spec), "spec");
  return spec;
}

float Recipe::update(std::int64_t step, std::span<const float> history, float format_max, float scale) const {
  library_.check(library_.table<oct_precision_table>().update(handle_, step, history.data(), std::int32_t(history.size()),
                                                              format_max, &scale),
                 "update");
  return scale;
}

}  // namespace octachoron
