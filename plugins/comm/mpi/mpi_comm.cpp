#include "plugins/comm/mpi/mpi_comm.h"

#include <algorithm>
#include <cstdlib>

#include "plugins/comm/mpi/reduce.h"

namespace octachoron::mpi {

namespace {

using plugin::Failure;

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Failure(OCT_COMM_ERROR, std::string(what) + ": " + std::string(text, std::size_t(length)));
}

MPI_Comm duplicate(std::int32_t handle) {
  int initialized = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&initialized);
  if (initialized == 0) throw Failure(OCT_COMM_ERROR, "MPI is not initialised");
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE)
    throw Failure(OCT_COMM_ERROR,
                  "MPI was initialised without MPI_THREAD_MULTIPLE, which the progress thread needs");
  if (handle == 0) throw Failure(OCT_COMM_ERROR, "the program gave no MPI communicator");
  const MPI_Comm given = MPI_Comm_f2c(handle);
  if (given == MPI_COMM_NULL) throw Failure(OCT_COMM_ERROR, "the MPI communicator of the run is null");
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(given, &copy), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}

std::chrono::microseconds delay_from_environment() {
  const char* text = std::getenv("OCTACHORON_COMM_DELAY_US");
  return std::chrono::microseconds(text == nullptr ? 0 : std::max(0l, std::strtol(text, nullptr, 10)));
}

bool labels_from_environment() {
  const char* text = std::getenv("OCTACHORON_CHECK_LABELS");
  return text != nullptr && std::string(text) == "1";
}

}  // namespace

MpiComm::MpiComm(const oct_comm_host& host)
    : host_(*host.host),
      device_table_(*host.device_table),
      device_(host.device),
      check_labels_(labels_from_environment()),
      delay_(delay_from_environment()),
      run_(duplicate(host.mpi_communicator)) {
  oct_device_properties properties{};
  properties.struct_size = sizeof properties;
  if (device_table_.properties(device_, &properties) != OCT_OK)
    throw Failure(OCT_DEVICE_ERROR, "the device does not tell its properties");
  is_host_ = properties.is_host != 0;
}

MpiComm::~MpiComm() {
  const bool failed = progress_.failed();
  progress_.stop();
  pool_.for_each_lane([&](LaneState& lane) {
    for (void* memory : lane.retired) device_table_.release(device_, OCT_MEMORY_PINNED, memory);
    if (lane.staging != nullptr) device_table_.release(device_, OCT_MEMORY_PINNED, lane.staging);
  });
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (failed || finalized != 0) return;  // freeing is collective, and peers may be gone
  for (Group& group : groups_)
    if (group.communicator != MPI_COMM_NULL) MPI_Comm_free(&group.communicator);
  MPI_Comm_free(&run_);
}

void MpiComm::destroy(MpiComm* comm) {
  if (comm == nullptr) return;
  const bool drained = comm->pool_.drain(std::chrono::seconds(2), [&] { return comm->progress_.failed(); });
  // Copies back from the staging memory may follow the last message on its lane.
  if (drained && !comm->is_host_ && !comm->progress_.failed()) comm->device_table_.synchronize(comm->device_);
  if (drained && comm->progress_.stop()) delete comm;
}

int MpiComm::create_group(const std::int32_t* ranks, int n, const char* purpose) {
  refuse_after_failure();
  comm::check_members(host_, ranks, n, purpose);
  Group& group = groups_.emplace_back();
  comm::set_members(group, host_, ranks, n, purpose);
  if (n > 1) {
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    check_mpi(MPI_Comm_group(run_, &all), "MPI_Comm_group");
    check_mpi(MPI_Group_incl(all, n, group.ranks.data(), &members), "MPI_Group_incl");
    const int code = MPI_Comm_create_group(run_, members, 0, &group.communicator);
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    check_mpi(code, "MPI_Comm_create_group");
    MPI_Comm_set_errhandler(group.communicator, MPI_ERRORS_RETURN);
  }
  return int(groups_.size()) - 1;
}

void MpiComm::check(const oct_message& m) const {
  comm::check_kind(m);
  comm::check_message(comm::at(groups_, m.group), m, can_reduce);
}

void MpiComm::refuse_after_failure() const {
  if (progress_.failed()) throw Failure(OCT_COMM_ERROR, progress_.error());
}

void MpiComm::enqueue(const oct_message& m, const void* send, void* receive, oct_lane* handle) {
  refuse_after_failure();
  check(m);
  Group& group = groups_[std::size_t(m.group)];
  const Entry entry{&group, m, send, receive};
  comm::check_buffers(group, m, send, receive);
  LaneState& lane = pool_.lane(handle);
  if (lane.open != nullptr && is_collective(m.kind))
    throw std::invalid_argument("a collective cannot stand in an exchange: " + describe(entry));
  if (group.size() == 1) {  // nothing travels
    if (receive != nullptr && receive != send) copy(receive, send, sizes(group, m).send, handle);
    return;
  }
  comm::count(group, m);
  if (lane.open != nullptr) {
    lane.open->entries.push_back(entry);
    return;
  }
  Batch& batch = pool_.take(this, lane);
  batch.entries.push_back(entry);
  submit(batch, handle);
}

void MpiComm::exchange_begin(oct_lane* handle) {
  refuse_after_failure();
  LaneState& lane = pool_.lane(handle);
  if (lane.open != nullptr) throw std::invalid_argument("the lane is in an exchange already");
  lane.open = &pool_.take(this, lane);
}

void MpiComm::exchange_end(oct_lane* handle) {
  LaneState& lane = pool_.lane(handle);
  if (lane.open == nullptr) throw std::invalid_argument("the lane is in no exchange");
  Batch& batch = *lane.open;
  lane.open = nullptr;
  if (batch.entries.empty() || progress_.failed()) {
    pool_.give_back(batch);
    return refuse_after_failure();
  }
  submit(batch, handle);
}

/// To the lane: copies to the host where the device needs them, the messages, copies back.
void MpiComm::submit(Batch& batch, oct_lane* handle) {
  LaneState& lane = *batch.lane;
  struct Back {
    void* to;
    const void* from;
    std::int64_t bytes;
  };
  std::vector<Back> back;  // empty, thus without memory, on host devices
  oct_status status = OCT_OK;
  try {
    if (!is_host_) {
      const std::vector<Entry> on_device = batch.entries;
      stage_in(batch, lane, handle);
      for (std::size_t i = 0; i < on_device.size(); ++i)
        if (on_device[i].receive != nullptr)
          back.push_back({on_device[i].receive, batch.entries[i].receive,
                          sizes(*batch.entries[i].group, batch.entries[i].message).receive});
    }
    const auto function = [](void* argument) {
      static_cast<Batch*>(argument)->comm->execute(*static_cast<Batch*>(argument));
    };
    status = device_table_.enqueue_host(device_, handle, function, &batch);
  } catch (...) {
    pool_.give_back(batch);
    throw;
  }
  if (status != OCT_OK) {
    pool_.give_back(batch);
    throw Failure(status, "the device did not take a host function");
  }
  // The batch may be over by now; the lane's staging memory is its own until the next batch of the same lane.
  for (const Back& part : back) copy(part.to, part.from, part.bytes, handle);
}

void MpiComm::stage_in(Batch& batch, LaneState& lane, oct_lane* handle) {
  const auto padded = [](std::int64_t bytes) { return std::size_t(bytes + 255) / 256 * 256; };
  std::size_t needed = 0;
  for (const Entry& entry : batch.entries) {
    const Sizes bytes = sizes(*entry.group, entry.message);
    needed += padded(bytes.send) + padded(bytes.receive);
  }
  if (needed > lane.staging_bytes) {
    // Earlier batches of the lane may still use the old memory.
    if (lane.staging != nullptr) lane.retired.push_back(lane.staging);
    lane.staging = nullptr;
    const std::size_t bytes = std::max({needed, 2 * lane.staging_bytes, std::size_t(1) << 16});
    if (device_table_.allocate(device_, OCT_MEMORY_PINNED, bytes, &lane.staging) != OCT_OK) {
      lane.staging_bytes = 0;
      throw Failure(OCT_OUT_OF_MEMORY,
                    "no pinned memory for " + std::to_string(bytes) + " bytes of messages");
    }
    lane.staging_bytes = bytes;
  }
  auto* at = static_cast<std::byte*>(lane.staging);
  for (Entry& entry : batch.entries) {
    const Sizes bytes = sizes(*entry.group, entry.message);
    if (bytes.send > 0) copy(at, entry.send, bytes.send, handle);
    entry.send = at;
    at += padded(bytes.send);
    entry.receive = at;
    at += padded(bytes.receive);
  }
}

void MpiComm::copy(void* to, const void* from, std::int64_t bytes, oct_lane* lane) {
  if (bytes == 0) return;
  const oct_status status = device_table_.copy(device_, to, from, std::size_t(bytes), lane);
  if (status != OCT_OK) throw Failure(status, "the device did not copy a message");
}

/// On the lane.
void MpiComm::execute(Batch& batch) noexcept {
  pool_.start(batch);
  try {
    refuse_after_failure();
    run(batch.entries, batch.lane->work, progress_, check_labels_);
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
  } catch (const std::exception& error) {
    progress_.abort(error.what());
  }
  pool_.give_back(batch);
}

void MpiComm::counters(int id, bool reset, oct_comm_counters& out) {
  comm::read_counters(comm::at(groups_, id), reset, out);
}

void MpiComm::abort() {
  progress_.abort("communication was aborted");
}

std::string MpiComm::describe_pending() {
  std::string text;
  pool_.for_each_running([&](const Batch& batch) {
    const double seconds = std::chrono::duration<double>(Clock::now() - batch.since).count();
    char waited[48];
    std::snprintf(waited, sizeof waited, " for %.1f s", seconds);
    if (!text.empty()) text += "; ";
    text += describe(batch.entries.front());
    if (batch.entries.size() > 1) text += " and " + std::to_string(batch.entries.size() - 1) + " more";
    text += waited;
    std::string peers;
    for (int peer : progress_.waiting_for(batch.lane->work.job))
      peers.append(" ").append(std::to_string(batch.entries.front().group->ranks[std::size_t(peer)]));
    if (!peers.empty()) text += ", waiting for rank" + peers;
  });
  return text;
}

}  // namespace octachoron::mpi
