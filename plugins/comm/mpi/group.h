#pragma once
/// A group of ranks with a communicator of its own: messages of different groups never match each other.
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "core/plugin/abi.h"

namespace octachoron::mpi {

struct Group {
  MPI_Comm communicator = MPI_COMM_NULL;  ///< null for a group of one
  std::vector<int> ranks;                 ///< of the run, in group order
  int place = 0;                          ///< of this rank
  std::string purpose;
  std::atomic<std::int64_t> calls{0}, bytes{0};
  std::atomic<bool> busy{false};  ///< a collective is in flight

  int size() const { return int(ranks.size()); }
};

/// One message with its buffers, which the host can read and write.
struct Entry {
  Group* group;
  oct_message message;
  const void* send;
  void* receive;
};

inline bool is_collective(int kind) {
  return kind >= OCT_ALL_GATHER && kind <= OCT_BROADCAST;
}

}  // namespace octachoron::mpi
