#include "plugins/precision/fp8.h"

namespace octachoron::plugin {
namespace {

/// The scale comes from the tensor itself, of this micro-batch: one more pass over it, and no lag. The amax
/// is that of all ranks of a tensor-parallel group, since its bytes may be gathered among them.
struct Current {
  static void warn(const oct_host& host, const PrecisionOptions& options) {
    warn_without_effect(host, options.changed({"amax_history", "amax_algorithm"}),
                        "this recipe keeps no history");
  }
  static void scale(const PrecisionOptions&, oct_quant_spec& spec) {
    spec.scale_source = OCT_SCALE_CURRENT;
    spec.amax_axes = kTensorAxis;
    spec.history = 1;
    spec.amax_algorithm = OCT_AMAX_MAX;
  }
};

constexpr oct_plugin kPlugin = {.abi_major = OCT_ABI_MAJOR,
                                .abi_minor = OCT_ABI_MINOR,
                                .struct_size = sizeof(oct_plugin),
                                .family = OCT_PRECISION,
                                .name = "fp8-current",
                                .version = OCTACHORON_VERSION,
                                .build = OCT_PLUGIN_BUILD,
                                .last_error = last_error,
                                .table = &precision_table<Fp8Recipe<Current>>};

}  // namespace
}  // namespace octachoron::plugin

OCT_PLUGIN_EXPORT const oct_plugin* octachoron_plugin(void) {
  return &octachoron::plugin::kPlugin;
}
