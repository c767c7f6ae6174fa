#pragma once
/// Recipes with one FP8 scale a tensor: E4M3 forward and E5M2 for gradients (hybrid), or E4M3 throughout.
/// Weights and activations are stored in BF16, everything else in FP32.
#include <fnmatch.h>

#include <cstdio>
#include <string>
#include <vector>

#include "core/plugin/export.h"
#include "plugins/precision/options.h"

namespace octachoron::plugin {

/// Bits of oct_quant_spec::amax_axes.
inline constexpr std::uint32_t kTensorAxis = 1, kContextAxis = 2, kDataAxis = 4;

/// The globs of precision.exclude.
inline std::vector<std::string> parse_globs(const std::string& list) {
  std::vector<std::string> globs;
  std::istringstream stream(list);
  for (std::string glob; std::getline(stream, glob, ',');) {
    const auto first = glob.find_first_not_of(" \t");
    if (first != std::string::npos)
      globs.push_back(glob.substr(first, glob.find_last_not_of(" \t") + 1 - first));
  }
  return globs;
}

/// `Scaling` says where scales come from: warn(host, options) of keys without effect, scale(options, spec).
template <class Scaling>
class Fp8Recipe {
 public:
  Fp8Recipe(const oct_host& host, const std::string& options)
      : options_(parse_precision_options(options)), excluded_(parse_globs(options_.exclude)) {
    Scaling::warn(host, options_);
  }

  oct_dtype storage(oct_storage role) const {
    return role == OCT_STORAGE_WEIGHT || role == OCT_STORAGE_ACTIVATION ? OCT_BF16 : OCT_F32;
  }

  oct_quant_spec spec(const oct_quant_query& query) const {
    oct_quant_spec spec{};
    const std::string reason = why_not(query);
    std::snprintf(spec.reason, sizeof spec.reason, "%s", reason.c_str());
    if (!reason.empty()) return spec;
    const bool wide_range = options_.format == "hybrid" && query.operand == OCT_GRAD_OUTPUT;
    spec.quantized = 1;
    spec.format = wide_range ? OCT_E5M2 : OCT_E4M3;
    spec.granularity = OCT_PER_TENSOR;
    spec.scale_type = OCT_SCALE_F32;
    spec.margin = options_.margin;
    spec.rounding = OCT_NEAREST_EVEN;
    spec.fast_accumulation = query.pass == OCT_FPROP ? 1 : 0;
    Scaling::scale(options_, spec);
    return spec;
  }

 private:
  /// Why the module stays in BF16, empty if it does not.
  std::string why_not(const oct_quant_query& query) const {
    for (const std::string& glob : excluded_) {
      if (fnmatch(glob.c_str(), query.module, 0) == 0) return "bf16: precision.exclude has " + glob;
    }
    if (query.layer < 0) return options_.head == "fp8" ? "" : "bf16: precision.head";
    const auto first = options_.high_precision_first, last = options_.high_precision_last;
    if (query.layer < first) return "bf16: precision.high_precision_first = " + std::to_string(first);
    if (query.layer >= query.layers - last)
      return "bf16: precision.high_precision_last = " + std::to_string(last);
    return "";
  }

  PrecisionOptions options_;
  std::vector<std::string> excluded_;
};

}  // namespace octachoron::plugin
