#pragma once
/// How communicators come to be. The run's first one begins with an identity that goes through the host's
/// all-gather. It has one job: to carry the identities of the groups' own communicators from their first
/// members to the others, as only the members of a group know that it is made.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <vector>

#include "plugins/comm/messages.h"
#include "plugins/comm/nccl/communicator.h"

namespace octachoron::nccl {

class Bootstrap {
 public:
  /// Collective over the run. \throws plugin::Failure on all ranks alike if one has no GPU or two share one
  Bootstrap(const oct_comm_host& host, Communicators& all);
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  /// Collective over the members, of which there are two or more. Waits for this rank's lanes, then for the
  /// other members. A second group of the same members is split from the first.
  ncclComm_t connect(const comm::Group& group);
  /// The GPU of the run becomes the calling thread's.
  void make_current() const { (void)cudaSetDevice(gpu_); }

 private:
  struct Made {
    std::vector<int> members;  ///< in rising order
    ncclComm_t communicator;
  };
  void connect_run();
  ncclUniqueId share_identity(const comm::Group& group);
  void check_device(oct_status status, const char* what) const;

  oct_host host_;
  const oct_device_table& device_table_;
  oct_device* device_;
  Communicators& all_;
  int gpu_ = 0;
  ncclComm_t run_ = nullptr;  ///< null for a run of one rank
  std::vector<Made> made_;
  oct_lane* lane_ = nullptr;
  oct_event* arrived_ = nullptr;
  void *on_host_ = nullptr, *on_device_ = nullptr;  ///< room for an identity
};

/// The stream of a lane. \throws plugin::Failure if it has none
cudaStream_t stream_of(const oct_device_table& table, oct_device* device, oct_lane* lane);

}  // namespace octachoron::nccl
