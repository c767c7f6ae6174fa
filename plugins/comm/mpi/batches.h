#pragma once
/// What is enqueued on lanes: batches of messages from a pool, and the state of each lane.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "plugins/comm/mpi/collectives.h"

namespace octachoron::mpi {

class MpiComm;
struct LaneState;

/// One message, or the messages of one exchange.
struct Batch {
  MpiComm* comm = nullptr;
  LaneState* lane = nullptr;
  std::vector<Entry> entries;
  bool running = false;  ///< the lane has got to it
  Clock::time_point since;
};

struct LaneState {
  LaneWork work;
  Batch* open = nullptr;  ///< between exchange_begin and exchange_end
  /// Pinned memory for devices whose memory the host cannot read, and smaller ones that the lane may still
  /// use.
  void* staging = nullptr;
  std::size_t staging_bytes = 0;
  std::vector<void*> retired;
};

/// Thread-safe. Grows to what is in flight at once and then allocates no more.
class BatchPool {
 public:
  LaneState& lane(oct_lane* lane);
  Batch& take(MpiComm* comm, LaneState& lane);
  void start(Batch& batch);
  void give_back(Batch& batch);
  /// Until no batch is in use; \return false if that takes longer than `limit` and may_give_up() says yes
  bool drain(Clock::duration limit, const std::function<bool()>& may_give_up);
  void for_each_running(const std::function<void(const Batch&)>& visit);
  void for_each_lane(const std::function<void(LaneState&)>& visit);

 private:
  std::mutex mutex_;
  std::condition_variable drained_;
  std::unordered_map<oct_lane*, LaneState> lanes_;
  std::deque<Batch> batches_;
  std::vector<Batch*> free_;
};

}  // namespace octachoron::mpi
