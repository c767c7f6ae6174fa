#pragma once
/// Writing of checkpoints by all ranks into one file. Collective over `comm`: each phase that can fail on one
/// rank is followed by an agreement, so that an error is thrown on all ranks or on none, and none waits for
/// another. All calls of HDF5 of a process, here and elsewhere, must come from one thread at a time.
#include <mpi.h>

#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"

namespace octachoron {

/// Writes `<directory>/step-XXXXXXXX.h5`: beside its final name, synced, renamed, and only then older
/// checkpoints of the same run_id go, down to `keep` (0 keeps all). A failed save leaves the older ones and
/// no file of its own. \param tensors the same paths, shapes and stored types in the same order on all ranks
/// \param warnings if given: gets lines on what could not be removed
/// \returns the path of the new file, on all ranks
/// \throws Error(data) on all ranks, with the system's reason and the first failing rank
std::string save_checkpoint(MPI_Comm comm, const std::string& directory, const CheckpointHeader& header,
                            const std::vector<CheckpointTensor>& tensors, std::int64_t keep,
                            std::string* warnings = nullptr);

/// The same for any file name, without retention: gradients of traced steps.
void save_tensors(MPI_Comm comm, const std::string& path, const CheckpointHeader& header,
                  const std::vector<CheckpointTensor>& tensors);

/// Whether all ranks can write to a folder, rank 0's, or one that would be made there: every rank writes a
/// file in it. Nothing is left behind, no folder either. \throws Error(data) on all ranks if any cannot
void probe_directory(MPI_Comm comm, const std::string& directory);

}  // namespace octachoron
