#include "plugins/comm/messages.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <stdexcept>

#include "core/plugin/dtype.h"
#include "core/plugin/export.h"

namespace octachoron::comm {

void check_members(const oct_host& host, const std::int32_t* ranks, int n, const char* purpose) {
  const std::set<int> distinct(ranks, ranks + std::max(n, 0));
  if (n < 1 || int(distinct.size()) != n || *distinct.begin() < 0 || *distinct.rbegin() >= host.size ||
      distinct.count(host.rank) == 0)
    throw std::invalid_argument("the members of group '" + std::string(purpose) +
                                "' are not distinct ranks of the run that include this one");
}

void set_members(Group& group, const oct_host& host, const std::int32_t* ranks, int n, const char* purpose) {
  group.ranks.assign(ranks, ranks + n);
  group.place = int(std::find(ranks, ranks + n, host.rank) - ranks);
  group.purpose = purpose;
}

void refuse_group(int id) {
  throw std::invalid_argument("there is no group " + std::to_string(id));
}

std::int64_t size_of(int dtype) {
  return dtype >= 0 && dtype < OCT_DTYPES ? octachoron::size_of(DType(dtype)) : 0;
}

const char* dtype_name(int dtype) {
  return name(DType(dtype));
}

Sizes sizes(const Group& group, const oct_message& m) {
  const std::int64_t bytes = m.count * size_of(m.dtype), whole = bytes * group.size();
  switch (m.kind) {
    case OCT_ALL_GATHER:
      return {bytes, whole};
    case OCT_REDUCE_SCATTER:
      return {whole, bytes};
    case OCT_BROADCAST:
      return {m.peer == group.place ? bytes : 0, bytes};
    case OCT_SEND:
      return {bytes, 0};
    case OCT_RECEIVE:
      return {0, bytes};
    default:
      return {bytes, bytes};
  }
}

std::string describe(const Group& group, const oct_message& m) {
  constexpr const char* names[] = {"all-gather", "reduce-scatter", "all-reduce",
                                   "broadcast",  "send",           "receive"};
  char text[256];
  std::snprintf(
      text, sizeof text, "%s of %lld %s with label 0x%llx in group '%s' of %d",
      m.kind >= OCT_ALL_GATHER && m.kind <= OCT_RECEIVE ? names[m.kind - OCT_ALL_GATHER] : "message",
      static_cast<long long>(m.count), dtype_name(m.dtype), static_cast<unsigned long long>(m.label),
      group.purpose.c_str(), group.size());
  return text;
}

void check_kind(const oct_message& m) {
  if (m.struct_size < sizeof(oct_message))
    throw std::invalid_argument("the message is shorter than this plugin's");
  if (m.kind < OCT_ALL_GATHER || m.kind > OCT_RECEIVE)
    throw std::invalid_argument("kind " + std::to_string(m.kind) + " is no message");
}

void check_message(const Group& group, const oct_message& m, bool (*can_reduce)(int, int)) {
  const auto refuse = [](const std::string& why) { throw std::invalid_argument(why); };
  if (size_of(m.dtype) == 0) refuse("dtype " + std::to_string(m.dtype) + " is unknown");
  if (m.count < 0) refuse("the count " + std::to_string(m.count) + " is negative");
  if (is_reduction(m.kind) && !can_reduce(m.dtype, m.reduction))
    throw plugin::Failure(OCT_UNSUPPORTED, std::string("no reduction ") + std::to_string(m.reduction) +
                                               " of " + dtype_name(m.dtype));
  const bool has_peer = m.kind == OCT_SEND || m.kind == OCT_RECEIVE || m.kind == OCT_BROADCAST;
  if (has_peer && (m.peer < 0 || m.peer >= group.size()))
    refuse("peer " + std::to_string(m.peer) + " is not in group '" + group.purpose + "' of " +
           std::to_string(group.size()));
  if (!is_collective(m.kind) && m.peer == group.place)
    refuse("a rank does not send to itself in group '" + group.purpose + "'");
}

void check_buffers(const Group& group, const oct_message& m, const void* send, const void* receive) {
  const Sizes bytes = sizes(group, m);
  const bool root_keeps_its_own = m.kind == OCT_BROADCAST && bytes.send > 0;
  if ((bytes.send > 0 && send == nullptr) || (bytes.receive > 0 && receive == nullptr && !root_keeps_its_own))
    throw std::invalid_argument("a buffer of this " + describe(group, m) + " is null");
}

std::int64_t ring_bytes(const Group& group, const oct_message& m) {
  const std::int64_t n = group.size(), bytes = m.count * size_of(m.dtype);
  switch (m.kind) {
    case OCT_ALL_GATHER:
    case OCT_REDUCE_SCATTER:
      return (n - 1) * bytes;
    case OCT_ALL_REDUCE:
      return 2 * (n - 1) * bytes / n;
    case OCT_BROADCAST:
      return m.peer == group.place ? bytes : 0;
    case OCT_SEND:
      return bytes;
    default:
      return 0;
  }
}

void count(Group& group, const oct_message& message) {
  group.calls += 1;
  group.bytes += ring_bytes(group, message);
}

void read_counters(Group& group, bool reset, oct_comm_counters& out) {
  out.calls = reset ? group.calls.exchange(0) : group.calls.load();
  out.bytes_sent = reset ? group.bytes.exchange(0) : group.bytes.load();
}

}  // namespace octachoron::comm
