// The comm plugin mpi, saying that its groups may not be in flight together, as a network of one queue does.
#include <dlfcn.h>

#include "core/plugin/export.h"

namespace {

struct Chained {
  oct_plugin plugin{};
  oct_comm_table table{};

  Chained() {
    void* library = dlopen(OCTACHORON_MPI_PLUGIN, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) return;  // the loader refuses a plugin of ABI 0
    plugin = *reinterpret_cast<const oct_plugin* (*)()>(dlsym(library, "octachoron_plugin"))();
    table = *static_cast<const oct_comm_table*>(plugin.table);
    table.is_concurrent = [](oct_comm*) -> int32_t { return 0; };
    plugin.name = "chained";
    plugin.table = &table;
  }
};

}  // namespace

OCT_PLUGIN_EXPORT const oct_plugin* octachoron_plugin(void) {
  static const Chained chained;
  return &chained.plugin;
}
