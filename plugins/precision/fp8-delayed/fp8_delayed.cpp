#include "plugins/precision/fp8.h"

namespace octachoron::plugin {
namespace {

/// The scale comes from the amaxes of the steps before, so that a cast needs no pass of its own. All ranks of
/// a stage hold the same histories.
struct Delayed {
  static void warn(const oct_host&, const PrecisionOptions&) {}
  static void scale(const PrecisionOptions& options, oct_quant_spec& spec) {
    spec.scale_source = OCT_SCALE_HISTORY;
    spec.amax_axes = kTensorAxis | kContextAxis | kDataAxis;
    spec.history = options.amax_history;
    spec.amax_algorithm = options.amax_algorithm == "frozen"        ? OCT_AMAX_FROZEN
                          : options.amax_algorithm == "most_recent" ? OCT_AMAX_MOST_RECENT
                                                                    : OCT_AMAX_MAX;
  }
};

constexpr oct_plugin kPlugin = {.abi_major = OCT_ABI_MAJOR,
                                .abi_minor = OCT_ABI_MINOR,
                                .struct_size = sizeof(oct_plugin),
                                .family = OCT_PRECISION,
                                .name = "fp8-delayed",
                                .version = OCTACHORON_VERSION,
                                .build = OCT_PLUGIN_BUILD,
                                .last_error = last_error,
                                .table = &precision_table<Fp8Recipe<Delayed>>};

}  // namespace
}  // namespace octachoron::plugin

OCT_PLUGIN_EXPORT const oct_plugin* octachoron_plugin(void) {
  return &octachoron::plugin::kPlugin;
}
