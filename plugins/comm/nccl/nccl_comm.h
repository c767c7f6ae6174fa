#pragma once
/// The comm plugin over NCCL, as a class. Errors are thrown.
#include <atomic>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "plugins/comm/messages.h"
#include "plugins/comm/nccl/bootstrap.h"
#include "plugins/comm/nccl/pending.h"

namespace octachoron::nccl {

class NcclComm {
 public:
  static constexpr const char* kDevice = "cuda";
  /// Not concurrent: kernels of two communicators that wait for each other's ranks can keep each other off
  /// the GPU unless all ranks launch them in one order, which the engine's chain provides.
  static constexpr bool kCapturable = true, kConcurrent = false;

  /// Collective over the run. \throws plugin::Failure
  explicit NcclComm(const oct_comm_host& host);
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;
  static void destroy(NcclComm* comm);

  int create_group(const std::int32_t* ranks, int n, const char* purpose);
  /// Refuses what this plugin cannot do. \throws plugin::Failure, std::invalid_argument
  void check(const oct_message& message) const;
  void enqueue(const oct_message& message, const void* send, void* receive, oct_lane* lane);
  void exchange_begin(oct_lane* lane);
  void exchange_end(oct_lane* lane);
  void counters(int group, bool reset, oct_comm_counters& out);
  /// Asks all communicators; empty while all is well.
  std::string error();
  void abort();
  std::string describe_pending();

 private:
  struct Group : comm::Group {
    ncclComm_t communicator = nullptr;  ///< null for a group of one
  };
  struct Entry {
    Group* group;
    oct_message message;
    const void* send;
    void* receive;
  };
  /// Between exchange_begin and exchange_end.
  struct Exchange {
    bool is_open = false;
    std::vector<Entry> entries;
  };
  ~NcclComm() = default;
  void submit(std::span<const Entry> entries, oct_lane* lane);
  static ncclResult_t issue(const Entry& entry, cudaStream_t stream);
  /// The first reason is kept.
  void fail(const std::string& why);
  void refuse_after_failure() const;

  oct_host host_;
  const oct_device_table& device_table_;
  oct_device* device_;
  /// Held during calls of NCCL, which may wait for a peer: whoever must not wait takes it with a limit.
  mutable std::timed_mutex calls_;
  Communicators communicators_;
  Bootstrap bootstrap_;
  std::deque<Group> groups_;
  std::unordered_map<oct_lane*, Exchange> exchanges_;
  Pending pending_;
  std::atomic<bool> failed_{false}, ended_{false};
  mutable std::mutex reason_guard_;
  std::string reason_;
};

}  // namespace octachoron::nccl
