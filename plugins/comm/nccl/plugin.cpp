#include "plugins/comm/nccl/nccl_comm.h"
#include "plugins/comm/table.h"

#define OCTACHORON_TEXT_OF(x) #x
#define OCTACHORON_TEXT(x) OCTACHORON_TEXT_OF(x)
#define OCTACHORON_NCCL \
  "NCCL " OCTACHORON_TEXT(NCCL_MAJOR) "." OCTACHORON_TEXT(NCCL_MINOR) "." OCTACHORON_TEXT(NCCL_PATCH)

namespace octachoron::nccl {
namespace {

constexpr oct_plugin kPlugin = {.abi_major = OCT_ABI_MAJOR,
                                .abi_minor = OCT_ABI_MINOR,
                                .struct_size = sizeof(oct_plugin),
                                .family = OCT_COMM,
                                .name = "nccl",
                                .version = OCTACHORON_VERSION,
                                .build = OCT_PLUGIN_BUILD ", " OCTACHORON_NCCL,
                                .last_error = plugin::last_error,
                                .table = &comm::table<NcclComm>};

}  // namespace
}  // namespace octachoron::nccl

OCT_PLUGIN_EXPORT const oct_plugin* octachoron_plugin(void) {
  return &octachoron::nccl::kPlugin;
}
