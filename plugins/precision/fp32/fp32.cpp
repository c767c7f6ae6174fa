#include "plugins/precision/uniform.h"

namespace octachoron::plugin {
namespace {

struct Types {
  static constexpr oct_dtype wide = OCT_F32, narrow = OCT_F32;
  static constexpr const char* reason = "fp32 by recipe";
};

constexpr oct_plugin kPlugin = {.abi_major = OCT_ABI_MAJOR,
                                .abi_minor = OCT_ABI_MINOR,
                                .struct_size = sizeof(oct_plugin),
                                .family = OCT_PRECISION,
                                .name = "fp32",
                                .version = OCTACHORON_VERSION,
                                .build = OCT_PLUGIN_BUILD,
                                .last_error = last_error,
                                .table = &precision_table<UniformRecipe<Types>>};

}  // namespace
}  // namespace octachoron::plugin

OCT_PLUGIN_EXPORT const oct_plugin* octachoron_plugin(void) {
  return &octachoron::plugin::kPlugin;
}
