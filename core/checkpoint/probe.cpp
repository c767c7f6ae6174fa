#include <unistd.h>

#include "core/checkpoint/agreement.h"
#include "core/storage/durable_file.h"
#include "core/checkpoint/save.h"

namespace octachoron {

void probe_directory(MPI_Comm comm, const std::string& directory) {
  const int rank = rank_of(comm);
  try {
    together(comm, [&] {
      if (rank == 0) make_folder(directory);
    });
    together(comm, [&] {
      const std::string file = text(directory, "/.probe-", rank, ".tmp");
      make_file(file, 4096);
      ::unlink(file.c_str());
    });
  } catch (const Error& error) {
    fail(ExitStatus::data, "the folder '", directory, "' cannot be written to (", error.what(),
         "); make it writable on all nodes or choose another");
  }
}

}  // namespace octachoron
