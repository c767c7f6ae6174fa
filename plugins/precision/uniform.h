#pragma once
/// A recipe that keeps everything in one type and quantises nothing.
#include <cstdio>

#include "core/plugin/export.h"
#include "plugins/precision/options.h"

namespace octachoron::plugin {

template <oct_dtype Type>
class UniformRecipe {
 public:
  UniformRecipe(const oct_host&, const std::string& options) { parse_precision_options(options); }
  oct_dtype storage(oct_storage) const { return Type; }
  oct_quant_spec spec(const oct_quant_query&) const {
    oct_quant_spec spec{};
    std::snprintf(spec.reason, sizeof spec.reason, "%s by recipe", Type == OCT_F64 ? "fp64" : "fp32");
    return spec;
  }
};

}  // namespace octachoron::plugin
