#include "plugins/comm/nccl/nccl_comm.h"

#include <memory>
#include <stdexcept>
#include <utility>

#include "core/plugin/export.h"
#include "plugins/comm/nccl/mapping.h"

namespace octachoron::nccl {

namespace {

using plugin::Failure;
using namespace std::chrono_literals;

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

}  // namespace

NcclComm::NcclComm(const oct_comm_host& host)
    : host_(*host.host),
      device_table_(*host.device_table),
      device_(host.device),
      bootstrap_(host, communicators_),
      pending_(*host.device_table, host.device) {}

void NcclComm::destroy(NcclComm* comm) {
  if (comm == nullptr) return;
  comm->bootstrap_.make_current();
  if (!comm->failed_ && comm->device_table_.synchronize(comm->device_) == OCT_OK)
    comm->communicators_.destroy();
  else
    comm->abort();
  delete comm;
}

int NcclComm::create_group(const std::int32_t* ranks, int n, const char* purpose) {
  const std::lock_guard lock(calls_);
  refuse_after_failure();
  comm::check_members(host_, ranks, n, purpose);
  Group& group = groups_.emplace_back();
  try {
    comm::set_members(group, host_, ranks, n, purpose);
    if (n > 1) group.communicator = bootstrap_.connect(group);
  } catch (const std::exception& error) {
    groups_.pop_back();
    fail(error.what());
    throw;
  }
  return int(groups_.size()) - 1;
}

void NcclComm::check(const oct_message& message) const {
  comm::check_kind(message);
  comm::check_message(comm::at(groups_, message.group), message, can_reduce);
}

void NcclComm::enqueue(const oct_message& message, const void* send, void* receive, oct_lane* lane) {
  const std::lock_guard lock(calls_);
  refuse_after_failure();
  check(message);
  Group& group = groups_[std::size_t(message.group)];
  comm::check_buffers(group, message, send, receive);
  Exchange& exchange = exchanges_[lane];
  if (exchange.is_open && comm::is_collective(message.kind))
    throw std::invalid_argument("a collective cannot stand in an exchange: " +
                                comm::describe(group, message));
  if (group.size() == 1) {  // nothing travels
    const auto bytes = std::size_t(comm::sizes(group, message).send);
    if (receive == nullptr || receive == send || bytes == 0) return;
    const oct_status status = device_table_.copy(device_, receive, send, bytes, lane);
    if (status != OCT_OK) throw Failure(status, "the device did not copy a message");
    return;
  }
  comm::count(group, message);
  if (message.count == 0) return;
  const Entry entry{&group, message, send, receive};
  if (exchange.is_open)
    exchange.entries.push_back(entry);
  else
    submit({&entry, 1}, lane);
}

void NcclComm::exchange_begin(oct_lane* lane) {
  const std::lock_guard lock(calls_);
  refuse_after_failure();
  Exchange& exchange = exchanges_[lane];
  if (exchange.is_open) throw std::invalid_argument("the lane is in an exchange already");
  exchange.is_open = true;
  exchange.entries.clear();
}

// Only here does NCCL hear of an exchange: between its own brackets would stand whatever else the thread
// enqueues.
void NcclComm::exchange_end(oct_lane* lane) {
  const std::lock_guard lock(calls_);
  Exchange& exchange = exchanges_[lane];
  if (!exchange.is_open) throw std::invalid_argument("the lane is in no exchange");
  exchange.is_open = false;
  refuse_after_failure();
  if (!exchange.entries.empty()) submit(exchange.entries, lane);
}

void NcclComm::submit(std::span<const Entry> entries, oct_lane* lane) {
  bootstrap_.make_current();
  const cudaStream_t stream = stream_of(device_table_, device_, lane);
  ncclResult_t result = entries.size() > 1 ? ncclGroupStart() : ncclSuccess;
  const bool is_grouped = entries.size() > 1 && result == ncclSuccess;
  const Entry* at = entries.data();
  for (const Entry& entry : entries) {
    if (result != ncclSuccess) break;
    at = &entry;
    result = issue(entry, stream);
  }
  const ncclResult_t ended = is_grouped ? ncclGroupEnd() : ncclSuccess;
  if (result == ncclSuccess) result = ended;
  if (result != ncclSuccess) {
    const std::string why = comm::describe(*at->group, at->message) + " failed: " + text_of(result);
    fail(why);  // the members of the group are out of step
    throw Failure(status_of(result), why);
  }
  // Events of a graph cannot be asked for.
  if (!is_capturing(stream)) pending_.add(lane, *entries[0].group, entries[0].message, entries.size() - 1);
}

ncclResult_t NcclComm::issue(const Entry& entry, cudaStream_t stream) {
  const auto& [group, m, send, receive] = entry;
  const ncclComm_t communicator = group->communicator;
  const auto count = std::size_t(m.count);
  const ncclDataType_t type = type_of(m.dtype);
  switch (m.kind) {
    case OCT_ALL_GATHER:
      return ncclAllGather(send, receive, count, type, communicator, stream);
    case OCT_REDUCE_SCATTER:
      return ncclReduceScatter(send, receive, count, type, reduction_of(m.reduction), communicator, stream);
    case OCT_ALL_REDUCE:
      return ncclAllReduce(send, receive, count, type, reduction_of(m.reduction), communicator, stream);
    case OCT_BROADCAST: {
      const bool is_root = m.peer == group->place;
      void* result = is_root && receive == nullptr ? const_cast<void*>(send) : receive;
      return ncclBroadcast(is_root ? send : receive, result, count, type, m.peer, communicator, stream);
    }
    case OCT_SEND:
      return ncclSend(send, count, type, m.peer, communicator, stream);
    default:
      return ncclRecv(receive, count, type, m.peer, communicator, stream);
  }
}

void NcclComm::counters(int group, bool reset, oct_comm_counters& out) {
  comm::read_counters(comm::at(groups_, group), reset, out);
}

void NcclComm::fail(const std::string& why) {
  const std::lock_guard lock(reason_guard_);
  if (!failed_) reason_ = why;
  failed_ = true;
}

void NcclComm::refuse_after_failure() const {
  if (!failed_) return;
  const std::lock_guard lock(reason_guard_);
  throw Failure(OCT_COMM_ERROR, reason_);
}

std::string NcclComm::error() {
  if (!failed_) {
    const std::unique_lock lock(calls_, 100ms);
    if (lock && !ended_)
      if (const std::string why = communicators_.error(); !why.empty()) fail(why);
  }
  const std::lock_guard lock(reason_guard_);
  return reason_;
}

void NcclComm::abort() {
  fail("communication was aborted");
  // A call that waits for a peer inside NCCL keeps the mutex, and only the abort ends it.
  const std::unique_lock lock(calls_, 500ms);
  if (ended_.exchange(true)) return;
  bootstrap_.make_current();
  communicators_.abort();
}

std::string NcclComm::describe_pending() {
  const std::unique_lock lock(calls_, 100ms);
  return lock ? pending_.describe() : "a call of NCCL that waits for other ranks";
}

}  // namespace octachoron::nccl
