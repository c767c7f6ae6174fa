#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "app/commands.h"
#include "app/launcher.h"
#include "app/stop_signal.h"
#include "core/config/validate.h"
#include "core/parallel/together.h"
#include "core/train/trainer.h"

namespace octachoron {

namespace {

constexpr std::int64_t kTextVocabulary = 256;  // text is the data format of this version
constexpr double kMeetLimit_s = 5;             // for the other ranks to report the same error

// MPI stands while this object does.
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

void print_error(const std::string& sentence) {
  std::fprintf(stderr, "octachoron: %s\n", sentence.c_str());
}

// Each of N singletons would train on its own. Only the first of them says so.
bool refuse_singletons(int ranks) {
  const auto found = launcher();
  if (ranks > 1 || !found || found->size <= 1) return false;
  if (found->rank == 0)
    print_error(text(
        "MPI sees 1 rank, but ", found->size_variable, " = ", found->size,
        " (launcher and MPI library do not fit); start with srun --mpi=pmix or with this MPI's own mpirun"));
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

ExitStatus train_on(const World& world, const CommandLine& line) {
  try {
    const Parameters parameters = together(world, [&] { return read_parameters(line, world.size()); });
    return train(parameters, world, {.check = line.check, .stop_signal = &stop_signal()});
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

Parameters read_parameters(const CommandLine& line, int ranks) {
  ParsedParameters parsed = parse_parameters(line.parameter_file, line.overrides);
  finalize(parsed, kTextVocabulary);
  validate(parsed.values, ranks);
  return parsed.values;
}

ExitStatus run_train(const CommandLine& line) {
  const MpiRun mpi;
  try {
    const World world(MPI_COMM_WORLD);
    return refuse_singletons(world.size()) ? ExitStatus::environment : train_on(world, line);
  } catch (const Error& error) {  // the MPI library itself will not do, alike on all ranks
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) print_error(error.what());
    return error.status();
  }
}

}  // namespace octachoron
