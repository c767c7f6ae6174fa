#include "core/checkpoint/agreement.h"
#include "core/checkpoint/folder.h"
#include "core/checkpoint/load.h"

namespace octachoron {

LatestCheckpoint find_latest(const std::string& directory, const std::string& run_id,
                             std::int64_t below_step) {
  LatestCheckpoint latest;
  for (const FolderEntry& entry : folder_entries(directory)) {
    if (entry.step >= below_step) continue;
    if (entry.leftover) {
      latest.notes.push_back(text("'", entry.path, "' is what an interrupted save left and is not used"));
      continue;
    }
    try {
      const CheckpointFile file(entry.path);
      if (!run_id.empty() && file.header().run_id != run_id) {
        latest.notes.push_back(text("'", entry.path, "' is of the run '", file.header().run_id, "', not of '",
                                    run_id, "', and is not used"));
        continue;
      }
      latest.path = entry.path;
      latest.header = file.header();
      return latest;
    } catch (const Error& error) {
      if (error.status() == ExitStatus::internal) throw;
      latest.notes.push_back(error.what());
    }
  }
  return latest;
}

LatestCheckpoint find_latest(MPI_Comm comm, const std::string& directory, const std::string& run_id,
                             std::int64_t below_step) {
  LatestCheckpoint latest;
  const int rank = rank_of(comm);
  together(comm, [&] {
    if (rank == 0) latest = find_latest(directory, run_id, below_step);
  });
  broadcast(comm, latest.path);
  latest.header = header_of_rank_0(comm, latest.header);
  std::int64_t notes = std::int64_t(latest.notes.size());
  MPI_Bcast(&notes, 1, MPI_INT64_T, 0, comm);
  latest.notes.resize(std::size_t(notes));
  for (std::string& note : latest.notes) broadcast(comm, note);
  return latest;
}

}  // namespace octachoron
