#include "app/ranks.h"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "app/launcher.h"
#include "core/base/text.h"

namespace octachoron {

namespace {

constexpr double kMeetLimit_s = 5;  // for the other ranks to report the same error

// MPI stands while this object does.
class MpiRun {
 public:
  MpiRun() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    // Errors among many requests at once: MPICH, as MPI 4 has it, reports them there, and ends all otherwise.
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  ~MpiRun() { MPI_Finalize(); }
  MpiRun(const MpiRun&) = delete;
  MpiRun& operator=(const MpiRun&) = delete;
};

void print_error(const std::string& sentence) {
  std::fprintf(stderr, "octachoron: %s\n", sentence.c_str());
}

// Each of N singletons would train on its own. Only the first of them says so.
bool refuse_singletons(int ranks) {
  const auto found = launcher();
  if (ranks > 1 || !found || found->size <= 1) return false;
  if (found->rank == 0)
    print_error(text("MPI sees 1 rank, but ", found->size_variable, " = ", found->size,
                     " (launcher and MPI library do not fit); start with this MPI's own mpirun or with "
                     "the srun --mpi=TYPE that it was built for"));
  else
    let_first_rank_speak();
  return true;
}

// An error that all ranks share is printed by the lowest of them. A rank that fails alone ends the others
// too, since they may wait for it in a collective.
ExitStatus end_with(const World& world, const std::string& sentence, ExitStatus status) {
  const std::uint64_t mine = std::hash<std::string>{}(sentence);
  const auto sentences = world.meet(mine, kMeetLimit_s);
  const bool alone = sentences.empty();
  if (alone || std::find(sentences.begin(), sentences.end(), mine) - sentences.begin() == world.rank())
    print_error(sentence);
  if (alone) MPI_Abort(MPI_COMM_WORLD, int(status));
  return status;
}

ExitStatus run_reporting(const World& world, const std::function<ExitStatus(const World&)>& command) {
  try {
    return command(world);
  } catch (const Error& error) {
    return end_with(world, error.what(), error.status());
  } catch (const std::exception& error) {
    return end_with(
        world,
        text("rank ", world.rank(), " failed (", error.what(), "); report this with the parameter file"),
        ExitStatus::internal);
  }
}

}  // namespace

ExitStatus run_on_ranks(const std::function<ExitStatus(const World&)>& command) {
  const MpiRun mpi;
  try {
    const World world(MPI_COMM_WORLD);
    return refuse_singletons(world.size()) ? ExitStatus::environment : run_reporting(world, command);
  } catch (const Error& error) {  // the MPI library itself will not do, alike on all ranks
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) print_error(error.what());
    return error.status();
  }
}

}  // namespace octachoron
