#pragma once
/// Recipes that quantise nothing: masters, moments, gradients and statistics in a wide type, weights and activations in
/// that or in a narrow one.
#include <cstdio>

#include "core/plugin/export.h"
#include "plugins/precision/options.h"

namespace octachoron::plugin {

/// `Types` has the constants wide, narrow (oct_dtype) and reason (the answer for every operator).
template <class Types>
class UniformRecipe {
 public:
  UniformRecipe(const oct_host& host, const std::string& options) {
    const std::string changed = parse_precision_options(options).changed();
    if (!changed.empty() && host.log != nullptr)
      host.log(host.user, 1, (changed + " has no effect (this recipe quantises nothing); remove it, or choose another precision").c_str());
  }
  oct_dtype storage(oct_storage role) const {
    const bool travels = role == OCT_STORAGE_WEIGHT || role == OCT_STORAGE_ACTIVATION;
    return travels ? Types::narrow : Types::wide;
  }
  oct_quant_spec spec(const oct_quant_query&) const {
    oct_quant_spec spec{};
    std::snprintf(spec.reason, sizeof spec.reason, "%s", Types::reason);
    return spec;
  }
};

}  // namespace octachoron::plugin
