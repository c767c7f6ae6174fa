#include "plugins/comm/mpi/batches.h"

namespace octachoron::mpi {

LaneState& BatchPool::lane(oct_lane* lane) {
  std::lock_guard lock(mutex_);
  return lanes_[lane];
}

Batch& BatchPool::take(MpiComm* comm, LaneState& lane) {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    free_.push_back(&batches_.emplace_back());
    free_.reserve(batches_.size());  // giving back must not fail
  }
  Batch& batch = *free_.back();
  free_.pop_back();
  batch.comm = comm;
  batch.lane = &lane;
  batch.entries.clear();
  batch.running = false;
  return batch;
}

void BatchPool::start(Batch& batch) {
  std::lock_guard lock(mutex_);
  batch.running = true;
  batch.since = Clock::now();
}

void BatchPool::give_back(Batch& batch) {
  std::lock_guard lock(mutex_);
  batch.running = false;
  free_.push_back(&batch);
  drained_.notify_all();
}

bool BatchPool::drain(Clock::duration limit, const std::function<bool()>& may_give_up) {
  std::unique_lock lock(mutex_);
  while (!drained_.wait_for(lock, limit, [&] { return free_.size() == batches_.size(); }))
    if (may_give_up()) return false;
  return true;
}

void BatchPool::for_each_running(const std::function<void(const Batch&)>& visit) {
  std::lock_guard lock(mutex_);
  for (const Batch& batch : batches_)
    if (batch.running) visit(batch);
}

void BatchPool::for_each_lane(const std::function<void(LaneState&)>& visit) {
  std::lock_guard lock(mutex_);
  for (auto& [handle, lane] : lanes_) visit(lane);
}

}  // namespace octachoron::mpi
