#include "plugins/comm/mpi/mpi_comm.h"
#include "plugins/comm/table.h"

#ifdef OMPI_MAJOR_VERSION
#define OCTACHORON_TEXT_OF(x) #x
#define OCTACHORON_TEXT(x) OCTACHORON_TEXT_OF(x)
#define OCTACHORON_MPI                                                 \
  "Open MPI " OCTACHORON_TEXT(OMPI_MAJOR_VERSION) "." OCTACHORON_TEXT( \
      OMPI_MINOR_VERSION) "." OCTACHORON_TEXT(OMPI_RELEASE_VERSION)
#elif defined(MPICH_VERSION)
#define OCTACHORON_MPI "MPICH " MPICH_VERSION
#else
#define OCTACHORON_MPI "MPI"
#endif

namespace octachoron::mpi {
namespace {

constexpr oct_plugin kPlugin = {.abi_major = OCT_ABI_MAJOR,
                                .abi_minor = OCT_ABI_MINOR,
                                .struct_size = sizeof(oct_plugin),
                                .family = OCT_COMM,
                                .name = "mpi",
                                .version = OCTACHORON_VERSION,
                                .build = OCT_PLUGIN_BUILD ", " OCTACHORON_MPI,
                                .last_error = plugin::last_error,
                                .table = &comm::table<MpiComm>};

}  // namespace
}  // namespace octachoron::mpi

OCT_PLUGIN_EXPORT const oct_plugin* octachoron_plugin(void) {
  return &octachoron::mpi::kPlugin;
}
