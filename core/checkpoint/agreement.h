#pragma once
/// Errors that all ranks share: what fails on one rank is thrown on all, so that none waits in a collective
/// for another.
#include <mpi.h>

#include <functional>
#include <string>

#include "core/checkpoint/checkpoint.h"

namespace octachoron {

/// Runs `phase` on this rank, then agrees. The lowest failing rank's error is thrown on all ranks, with its
/// exit status; a CheckpointDamaged stays one. Collective.
void together(MPI_Comm comm, const std::function<void()>& phase);

int rank_of(MPI_Comm comm);

/// The text of rank 0 on all ranks. Collective.
void broadcast(MPI_Comm comm, std::string& text, int root = 0);

/// The header of rank 0 on all ranks. Collective.
CheckpointHeader header_of_rank_0(MPI_Comm comm, CheckpointHeader header);

}  // namespace octachoron
