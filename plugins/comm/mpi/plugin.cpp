#include <cstdio>

#include "plugins/comm/mpi/mpi_comm.h"

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

using plugin::guard;

MpiComm& self(oct_comm* comm) {
  return *reinterpret_cast<MpiComm*>(comm);
}

void write_line(const std::string& line, char* text, size_t bytes) {
  if (text != nullptr && bytes > 0) std::snprintf(text, bytes, "%s", line.c_str());
}

constexpr oct_comm_table kTable = {
    .struct_size = sizeof(oct_comm_table),
    .device = "any",
    .create =
        [](const oct_comm_host* host, oct_comm** out) {
          return guard([&] { *out = reinterpret_cast<oct_comm*>(new MpiComm(*host)); });
        },
    .destroy = [](oct_comm* comm) { MpiComm::destroy(reinterpret_cast<MpiComm*>(comm)); },
    .group_create =
        [](oct_comm* comm, const int32_t* ranks, int32_t n, const char* purpose, int32_t* group) {
          return guard([&] { *group = self(comm).create_group(ranks, n, purpose); });
        },
    .query =
        [](oct_comm* comm, const oct_message* message, int64_t* workspace) {
          return guard([&] {
            self(comm).check(*message);
            *workspace = 0;
          });
        },
    .enqueue =
        [](oct_comm* comm, const oct_message* message, const void* send, void* receive, void*,
           oct_lane* lane) { return guard([&] { self(comm).enqueue(*message, send, receive, lane); }); },
    .exchange_begin = [](oct_comm* comm,
                         oct_lane* lane) { return guard([&] { self(comm).exchange_begin(lane); }); },
    .exchange_end = [](oct_comm* comm,
                       oct_lane* lane) { return guard([&] { self(comm).exchange_end(lane); }); },
    .register_buffer = nullptr,
    .is_capturable = [](oct_comm*) -> int32_t { return 0; },
    .is_concurrent = [](oct_comm*) -> int32_t { return 1; },
    .counters =
        [](oct_comm* comm, int32_t group, int32_t reset, oct_comm_counters* out) {
          return guard([&] { self(comm).counters(group, reset != 0, *out); });
        },
    .poll_error =
        [](oct_comm* comm, char* text, size_t bytes) {
          return guard([&] {
            const std::string error = self(comm).error();
            if (error.empty()) return;
            write_line(error, text, bytes);
            throw plugin::Failure(OCT_COMM_ERROR, error);
          });
        },
    .abort = [](oct_comm* comm) { self(comm).abort(); },
    .describe_pending = [](oct_comm* comm, char* text,
                           size_t bytes) { write_line(self(comm).describe_pending(), text, bytes); }};

constexpr oct_plugin kPlugin = {.abi_major = OCT_ABI_MAJOR,
                                .abi_minor = OCT_ABI_MINOR,
                                .struct_size = sizeof(oct_plugin),
                                .family = OCT_COMM,
                                .name = "mpi",
                                .version = OCTACHORON_VERSION,
                                .build = OCT_PLUGIN_BUILD ", " OCTACHORON_MPI,
                                .last_error = plugin::last_error,
                                .table = &kTable};

}  // namespace
}  // namespace octachoron::mpi

OCT_PLUGIN_EXPORT const oct_plugin* octachoron_plugin(void) {
  return &octachoron::mpi::kPlugin;
}
