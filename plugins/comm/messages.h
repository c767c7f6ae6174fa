#pragma once
/// What is the same for every comm plugin: the members of a group, which messages make sense, how many bytes
/// they move.
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "core/plugin/abi.h"

namespace octachoron::comm {

struct Group {
  std::vector<int> ranks;  ///< of the run, in group order
  int place = 0;           ///< of this rank
  std::string purpose;
  std::atomic<std::int64_t> calls{0}, bytes{0};

  int size() const { return int(ranks.size()); }
};

/// \throws std::invalid_argument if the members are not distinct ranks of the run that include this one
void check_members(const oct_host& host, const std::int32_t* ranks, int n, const char* purpose);
/// Of checked members.
void set_members(Group& group, const oct_host& host, const std::int32_t* ranks, int n, const char* purpose);

/// The group of this id in a sequence of groups. \throws std::invalid_argument if there is none
[[noreturn]] void refuse_group(int id);
template <class Groups>
auto& at(Groups& groups, int id) {
  if (id < 0 || id >= int(groups.size())) refuse_group(id);
  return groups[std::size_t(id)];
}

std::int64_t size_of(int dtype);  ///< bytes; 0 for an unknown type
const char* dtype_name(int dtype);

inline bool is_collective(int kind) {
  return kind >= OCT_ALL_GATHER && kind <= OCT_BROADCAST;
}
inline bool is_reduction(int kind) {
  return kind == OCT_ALL_REDUCE || kind == OCT_REDUCE_SCATTER;
}

struct Sizes {
  std::int64_t send, receive;  ///< bytes of the two buffers
};
Sizes sizes(const Group& group, const oct_message& message);

/// "all-reduce of 12 f32 with label 0x1234 in group 'dp.gradient' of 4"
std::string describe(const Group& group, const oct_message& message);

/// Refuses what no plugin can do, or this one cannot: \param can_reduce of (dtype, oct_reduction).
/// \throws std::invalid_argument, plugin::Failure(OCT_UNSUPPORTED) for a reduction
void check_kind(const oct_message& message);
void check_message(const Group& group, const oct_message& message, bool (*can_reduce)(int, int));
/// \throws std::invalid_argument if a buffer is missing
void check_buffers(const Group& group, const oct_message& message, const void* send, const void* receive);

/// Bytes this rank sends on a ring of the group's members.
std::int64_t ring_bytes(const Group& group, const oct_message& message);
void count(Group& group, const oct_message& message);
void read_counters(Group& group, bool reset, oct_comm_counters& out);

}  // namespace octachoron::comm
