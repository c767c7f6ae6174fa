#pragma once
/// A group of ranks with a communicator of its own: messages of different groups never match each other.
#include <mpi.h>

#include <atomic>
#include <string>

#include "plugins/comm/messages.h"

namespace octachoron::mpi {

using comm::dtype_name;
using comm::is_collective;
using comm::size_of;
using comm::Sizes;
using comm::sizes;

struct Group : comm::Group {
  MPI_Comm communicator = MPI_COMM_NULL;  ///< null for a group of one
  std::atomic<bool> busy{false};          ///< a collective is in flight
};

/// One message with its buffers, which the host can read and write.
struct Entry {
  Group* group;
  oct_message message;
  const void* send;
  void* receive;
};

inline std::string describe(const Entry& entry) {
  return comm::describe(*entry.group, entry.message);
}

}  // namespace octachoron::mpi
