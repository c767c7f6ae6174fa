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

struct Sizes {
  std::int64_t send, receive;  ///< bytes of the two buffers
};
Sizes sizes(const Group& group, const oct_message& message);

/// "all-reduce of 12 f32 with label 0x1234 in group 'dp.gradient' of 4"
std::string describe(const Entry& entry);

/// Runs one message, or several sends and receives as one exchange.
/// \throws plugin::Failure(OCT_COMM_ERROR)
void run(std::span<const Entry> entries, LaneWork& work, Progress& progress, bool check_labels);

}  // namespace octachoron::mpi
