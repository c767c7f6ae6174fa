#include "plugins/comm/nccl/bootstrap.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/plugin/export.h"
#include "plugins/comm/nccl/mapping.h"

namespace octachoron::nccl {

namespace {

using plugin::Failure;

/// Before NCCL reads them; what the user has set stays.
void set_defaults() {
  const auto set = [](const char* name) { setenv(name, "0", 0); };
  // Connect collectives when a communicator is made: otherwise the host waits in the first one of each kind
  // for all members, and no watchdog can tell for whom.
  set("NCCL_RUNTIME_CONNECT");
  // Sums inside the switches come in an order that nobody states.
  set("NCCL_NVLS_ENABLE");
  // Captured and plain messages shall take the same way: a step after a resume may be the one that captures.
  set("NCCL_GRAPH_REGISTER");
  setenv("NCCL_COMM_BLOCKING", "1", 1);  // as configuration() says: the environment would win over it
}

ncclConfig_t configuration() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;  // a call of a non-blocking communicator starts a thread, each time
  return config;
}

/// What this rank has to say before anything may fail on one rank only.
Card make_card(const oct_host& host, int* gpu) {
  Card card{};
  const auto object = [&](const std::string& why) {
    std::snprintf(card.problem, sizeof card.problem, "%s", why.c_str());
    return card;
  };
  cudaDeviceProp properties{};
  cudaError_t status = cudaGetDevice(gpu);
  if (status == cudaSuccess) status = cudaGetDeviceProperties(&properties, *gpu);
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    return object(std::string("no NVIDIA GPU can be used (") + cudaGetErrorString(status) +
                  "); look at nvidia-smi and CUDA_VISIBLE_DEVICES, or set backend.comm = mpi");
  }
  std::memcpy(card.gpu.data(), &properties.uuid, card.gpu.size());
  if (host.rank != 0 || host.size == 1) return card;
  const ncclResult_t result = ncclGetUniqueId(&card.communicator);
  return result == ncclSuccess ? card : object("an identity for the run's communicator: " + text_of(result));
}

void report_version(const oct_host& host) {
  int version = 0;
  if (host.rank != 0 || host.log == nullptr || ncclGetVersion(&version) != ncclSuccess) return;
  if (version == NCCL_VERSION_CODE) return;
  char line[128];
  std::snprintf(line, sizeof line, "comm nccl was built with NCCL %d.%d.%d and runs with %d.%d.%d",
                NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, version / 10000, version / 100 % 100, version % 100);
  host.log(host.user, 0, line);
}

std::vector<int> in_rising_order(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

cudaStream_t stream_of(const oct_device_table& table, oct_device* device, oct_lane* lane) {
  int32_t type = OCT_NATIVE_NONE;
  void* handle = nullptr;
  if (table.lane_native(device, lane, &type, &handle) != OCT_OK || type != OCT_NATIVE_CUDA_STREAM)
    throw Failure(OCT_UNSUPPORTED, "a lane of this device is no CUDA stream, which NCCL needs");
  return static_cast<cudaStream_t>(handle);
}

Bootstrap::Bootstrap(const oct_comm_host& host, Communicators& all)
    : host_(*host.host), device_table_(*host.device_table), device_(host.device), all_(all) {
  set_defaults();
  // Any call makes the device's GPU the thread's; its own errors come to light soon enough.
  (void)device_table_.synchronize(device_);
  const Card mine = make_card(host_, &gpu_);
  std::vector<Card> cards(std::size_t(host_.size), mine);
  if (host_.size > 1 && host_.allgather(host_.user, &mine, cards.data(), sizeof mine) != OCT_OK)
    throw Failure(OCT_COMM_ERROR, "the ranks could not exchange what NCCL needs to begin");
  if (const std::string why = objection(cards); !why.empty()) throw Failure(OCT_DEVICE_ERROR, why);
  report_version(host_);
  if (host_.size == 1) return;
  ncclConfig_t config = configuration();
  config.minCTAs = config.maxCTAs = 1;  // it carries 128 bytes now and then: little memory
  check(ncclCommInitRankConfig(&run_, host_.size, cards[0].communicator, host_.rank, &config),
        "making the run's communicator");
  all_.add(run_);
  connect_run();
}

/// What identities travel through.
void Bootstrap::connect_run() {
  check_device(device_table_.lane_create(device_, "nccl", 0, &lane_), "a lane");
  check_device(device_table_.event_create(device_, &arrived_), "an event");
  check_device(device_table_.allocate(device_, OCT_MEMORY_PINNED, sizeof(ncclUniqueId), &on_host_), "memory");
  check_device(device_table_.allocate(device_, OCT_MEMORY_DEVICE, sizeof(ncclUniqueId), &on_device_),
               "memory");
}

Bootstrap::~Bootstrap() {
  if (on_device_ != nullptr) device_table_.release(device_, OCT_MEMORY_DEVICE, on_device_);
  if (on_host_ != nullptr) device_table_.release(device_, OCT_MEMORY_PINNED, on_host_);
  if (arrived_ != nullptr) device_table_.event_destroy(device_, arrived_);
  if (lane_ != nullptr) device_table_.lane_destroy(device_, lane_);
}

void Bootstrap::check_device(oct_status status, const char* what) const {
  if (status != OCT_OK) throw Failure(status, std::string("the device did not give comm nccl ") + what);
}

ncclComm_t Bootstrap::connect(const comm::Group& group) {
  make_current();
  check_device(device_table_.synchronize(device_), "the end of its work");
  const std::string what = "making the communicator of group '" + group.purpose + "'";
  const std::vector<int> members = in_rising_order(group.ranks);
  const auto twin =
      std::find_if(made_.begin(), made_.end(), [&](const Made& made) { return made.members == members; });
  ncclConfig_t config = configuration();
  ncclComm_t communicator = nullptr;
  if (twin != made_.end()) {
    check(ncclCommSplit(twin->communicator, 0, group.place, &communicator, &config), what);
  } else {
    const ncclUniqueId identity = share_identity(group);
    check(ncclCommInitRankConfig(&communicator, group.size(), identity, group.place, &config), what);
    made_.push_back({members, communicator});
  }
  all_.add(communicator);
  return communicator;
}

ncclUniqueId Bootstrap::share_identity(const comm::Group& group) {
  const std::string what = "sharing the identity of group '" + group.purpose + "'";
  const bool is_first = group.place == 0;
  ncclUniqueId identity{};
  if (is_first) {
    check(ncclGetUniqueId(&identity), what);
    std::memcpy(on_host_, &identity, sizeof identity);
    check_device(device_table_.copy(device_, on_device_, on_host_, sizeof identity, lane_), "a copy");
  }
  const cudaStream_t stream = stream_of(device_table_, device_, lane_);
  check(ncclGroupStart(), what);
  ncclResult_t result = ncclSuccess;
  if (is_first) {
    for (int place = 1; place < group.size() && result == ncclSuccess; ++place)
      result =
          ncclSend(on_device_, sizeof identity, ncclUint8, group.ranks[std::size_t(place)], run_, stream);
  } else {
    result = ncclRecv(on_device_, sizeof identity, ncclUint8, group.ranks[0], run_, stream);
  }
  const ncclResult_t ended = ncclGroupEnd();
  check(result != ncclSuccess ? result : ended, what);
  if (!is_first)
    check_device(device_table_.copy(device_, on_host_, on_device_, sizeof identity, lane_), "a copy");
  check_device(device_table_.event_record(device_, arrived_, lane_), "an event");
  check_device(device_table_.event_synchronize(device_, arrived_), "the end of a copy");
  if (!is_first) std::memcpy(&identity, on_host_, sizeof identity);
  return identity;
}

}  // namespace octachoron::nccl
