#pragma once
/// What a lane does for its messages: plain code that builds jobs for the progress thread and sums what came.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugins/comm/mpi/group.h"
#include "plugins/comm/mpi/progress.h"

namespace octachoron::mpi {

/// What travels before a message where labels are checked.
struct Header {
  std::uint64_t label;
  std::int64_t count;
  std::int32_t kind, dtype, reduction, root;
  bool operator==(const Header&) const = default;
};

/// Memory of one lane, used again by each of its messages.
struct LaneWork {
  Job job;
  std::vector<std::byte> scratch;
  std::vector<Header> headers;
  std::vector<int> order;                ///< of the peers
  std::vector<const std::byte*> inputs;  ///< of a sum
};

/// Runs one message, or several sends and receives as one exchange.
/// \throws plugin::Failure(OCT_COMM_ERROR)
void run(std::span<const Entry> entries, LaneWork& work, Progress& progress, bool check_labels);

}  // namespace octachoron::mpi
