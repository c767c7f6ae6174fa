#pragma once
/// The comm plugin over MPI, as a class. Errors are thrown.
#include <mpi.h>

#include <deque>
#include <string>

#include "core/plugin/export.h"
#include "plugins/comm/mpi/batches.h"

namespace octachoron::mpi {

class MpiComm {
 public:
  static constexpr const char* kDevice = "any";
  static constexpr bool kCapturable = false, kConcurrent = true;

  /// Collective over the run. \throws plugin::Failure
  explicit MpiComm(const oct_comm_host& host);
  MpiComm(const MpiComm&) = delete;
  MpiComm& operator=(const MpiComm&) = delete;
  /// Ends what can be ended and deletes; after a failure it leaves behind what still hangs inside MPI.
  static void destroy(MpiComm* comm);

  int create_group(const std::int32_t* ranks, int n, const char* purpose);
  /// Refuses what this plugin cannot do. \throws plugin::Failure, std::invalid_argument
  void check(const oct_message& message) const;
  void enqueue(const oct_message& message, const void* send, void* receive, oct_lane* lane);
  void exchange_begin(oct_lane* lane);
  void exchange_end(oct_lane* lane);
  void counters(int group, bool reset, oct_comm_counters& out);
  std::string error() const { return progress_.error(); }
  void abort();
  std::string describe_pending();

 private:
  ~MpiComm();
  void submit(Batch& batch, oct_lane* lane);
  void stage_in(Batch& batch, LaneState& lane, oct_lane* handle);
  void copy(void* to, const void* from, std::int64_t bytes, oct_lane* lane);
  void execute(Batch& batch) noexcept;
  void refuse_after_failure() const;

  oct_host host_;
  const oct_device_table& device_table_;
  oct_device* device_;
  bool is_host_ = true;
  bool check_labels_ = false;
  std::chrono::microseconds delay_{0};
  MPI_Comm run_ = MPI_COMM_NULL;
  std::deque<Group> groups_;
  BatchPool pool_;
  Progress progress_;
};

}  // namespace octachoron::mpi
