#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "app/commands.h"
#include "app/stop_signal.h"
#include "core/config/validate.h"
#include "core/parallel/together.h"
#include "core/train/trainer.h"

namespace octachoron {

namespace {

constexpr std::int64_t kTextVocabulary = 256;  // text is the data format of this version

// MPI stands while this object does. An error is printed by rank 0, and by others only if they alone know of
// it.
class MpiRun {
 public:
  MpiRun() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  }
  ~MpiRun() { MPI_Finalize(); }
  MpiRun(const MpiRun&) = delete;
  MpiRun& operator=(const MpiRun&) = delete;
};

// N singletons where the launcher says that there should be more ranks: each would train on its own.
void refuse_singletons(int ranks) {
  if (ranks > 1) return;
  for (const char* variable : {"SLURM_NTASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}) {
    const char* value = std::getenv(variable);
    const int expected = value ? std::atoi(value) : 1;
    if (expected > 1 && std::getenv("SLURM_PROCID") == nullptr && std::string(variable) == "SLURM_NTASKS")
      continue;
    if (expected > 1)
      fail(
          ExitStatus::environment, "MPI sees 1 rank, but ", variable, " = ", expected,
          " (launcher and MPI library do not fit); start with srun --mpi=pmix or with this MPI's own mpirun");
  }
}

}  // namespace

Parameters read_parameters(const CommandLine& line, int ranks) {
  ParsedParameters parsed = parse_parameters(line.parameter_file, line.overrides);
  finalize(parsed, kTextVocabulary);
  validate(parsed.values, ranks);
  return parsed.values;
}

ExitStatus run_train(const CommandLine& line) {
  const MpiRun mpi;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    const World world(MPI_COMM_WORLD);
    refuse_singletons(world.size());
    const Parameters parameters = together(world, [&] { return read_parameters(line, world.size()); });
    return train(parameters, world, {.check = line.check, .stop_signal = &stop_signal()});
  } catch (const Error& error) {
    const bool mine_alone =
        error.status() == ExitStatus::internal || error.status() == ExitStatus::peer_failed;
    if (rank == 0 || mine_alone) std::fprintf(stderr, "octachoron: %s\n", error.what());
    // Other ranks may wait for this one in a collective: end them too.
    if (mine_alone) MPI_Abort(MPI_COMM_WORLD, int(error.status()));
    return error.status();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "octachoron: rank %d: %s\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, int(ExitStatus::internal));
  }
  return ExitStatus::internal;
}

}  // namespace octachoron
