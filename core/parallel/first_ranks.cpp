#include "core/parallel/first_ranks.h"

#include <chrono>
#include <memory>
#include <thread>

#include "core/base/error.h"

namespace octachoron {

namespace {

constexpr double kMeetLimit_s = 5;  // for the ranks of an action to report the same error

// Waiting ranks leave the cores to those that work.
std::uint64_t sleeping_broadcast(const World& world, std::uint64_t value) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&value, 1, MPI_UINT64_T, 0, world.comm(), &request);
  for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return value;
}

// \return what the action threw, if anything, on all ranks of `part`
std::unique_ptr<Error> attempt(MPI_Comm part, const std::function<void(const World&)>& action) {
  auto world = std::make_unique<World>(part);
  try {
    action(*world);
    return nullptr;
  } catch (const Error& error) {
    // What failed may still point to this communicator: it stays until the process ends, which is next.
    const World& kept = *world.release();
    if (kept.meet(0, kMeetLimit_s).empty()) throw;
    return std::make_unique<Error>(error);
  }
}

}  // namespace

void on_first_ranks(const World& world, int ranks, const std::function<void(const World&)>& action) {
  ensure(0 < ranks && ranks <= world.size(), ranks, " of ", world.size(), " ranks");
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(world.comm(), world.rank() < ranks ? 0 : MPI_UNDEFINED, world.rank(), &part);
  std::unique_ptr<Error> error;
  if (part != MPI_COMM_NULL) {
    error = attempt(part, action);
    MPI_Comm_free(&part);
  }
  const auto status =
      ExitStatus(sleeping_broadcast(world, std::uint64_t(error ? error->status() : ExitStatus::done)));
  if (status != ExitStatus::done) throw Error(status, world.broadcast(error ? error->what() : "", 0));
}

}  // namespace octachoron
