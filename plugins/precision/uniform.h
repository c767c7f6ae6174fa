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
    warn_without_effect(host, parse_precision_options(options).changed(), "this recipe quantises nothing");
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
