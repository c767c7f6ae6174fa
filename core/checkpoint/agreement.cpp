#include "core/checkpoint/agreement.h"

#include <climits>
#include <cstdint>
#include <exception>

#include "core/checkpoint/checkpoint.h"

namespace octachoron {
namespace {

struct Outcome {
  int status = 0;  // ExitStatus, 0 none
  int damaged = 0;
  std::string sentence;
};

Outcome outcome_of(const std::function<void()>& phase) {
  try {
    phase();
    return {};
  } catch (const CheckpointDamaged& error) {
    return {int(error.status()), 1, error.what()};
  } catch (const Error& error) {
    return {int(error.status()), 0, error.what()};
  } catch (const std::exception& error) {
    return {int(ExitStatus::internal), 0, error.what()};
  }
}

}  // namespace

int rank_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

void broadcast(MPI_Comm comm, std::string& text, int root) {
  std::int64_t length = std::int64_t(text.size());
  MPI_Bcast(&length, 1, MPI_INT64_T, root, comm);
  ensure(length <= INT_MAX, "a text of ", length, " bytes to broadcast");
  text.resize(std::size_t(length));
  MPI_Bcast(text.data(), int(length), MPI_CHAR, root, comm);
}

CheckpointHeader header_of_rank_0(MPI_Comm comm, CheckpointHeader header) {
  std::int64_t numbers[5] = {header.step, header.samples, header.tokens, header.skipped,
                             std::int64_t(header.seed)};
  MPI_Bcast(numbers, 5, MPI_INT64_T, 0, comm);
  header.step = numbers[0], header.samples = numbers[1], header.tokens = numbers[2],
  header.skipped = numbers[3];
  header.seed = std::uint64_t(numbers[4]);
  broadcast(comm, header.run_id);
  broadcast(comm, header.parameters);
  broadcast(comm, header.versions);
  broadcast(comm, header.tuning);
  return header;
}

void together(MPI_Comm comm, const std::function<void()>& phase) {
  Outcome outcome = outcome_of(phase);
  const int rank = rank_of(comm);
  int failing = outcome.status != 0 ? rank : INT_MAX;
  MPI_Allreduce(MPI_IN_PLACE, &failing, 1, MPI_INT, MPI_MIN, comm);
  if (failing == INT_MAX) return;
  int kind[2] = {outcome.status, outcome.damaged};
  MPI_Bcast(kind, 2, MPI_INT, failing, comm);
  broadcast(comm, outcome.sentence, failing);
  if (failing != 0) outcome.sentence = text("on rank ", failing, ", ", outcome.sentence);
  if (kind[1]) throw CheckpointDamaged(outcome.sentence);
  throw Error(ExitStatus(kind[0]), outcome.sentence);
}

}  // namespace octachoron
