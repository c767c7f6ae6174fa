#include "plugins/device/cpu/lane.h"

#include <cstring>
#include <ctime>
#include <exception>
#include <utility>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace octachoron::cpu {

bool Progress::past(std::uint64_t position) const {
  return done() >= position;
}

std::uint64_t Progress::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void Progress::wait_for(std::uint64_t position) const {
  std::unique_lock lock(mutex_);
  ++waiting_;
  moved_.wait(lock, [&] { return done_ >= position; });
  --waiting_;
}

void Progress::advance() {
  const std::lock_guard lock(mutex_);
  ++done_;
  if (waiting_ > 0) moved_.notify_all();
}

Lane::Lane(Progress& progress, const std::string& name, std::function<void(const std::string&)> report)
    : progress_(progress), report_(std::move(report)), ring_(kUsual), thread_([this] { loop(); }) {
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

Lane::~Lane() {
  Command stop;
  stop.kind = Command::Kind::stop;
  enqueue(stop);
  thread_.join();
}

std::uint64_t Lane::enqueue(const Command& command) {
  std::unique_lock lock(mutex_);
  if (enqueued_ - progress_.done() >= ring_.size()) grow();
  ring_[enqueued_ % ring_.size()] = command;
  ++enqueued_;
  if (idle_) work_.notify_one();
  return enqueued_;
}

/// With the mutex held.
void Lane::grow() {
  std::vector<Command> larger(2 * ring_.size());
  for (std::uint64_t at = progress_.done(); at < enqueued_; ++at) larger[at % larger.size()] = ring_[at % ring_.size()];
  ring_.swap(larger);
}

std::uint64_t Lane::enqueued() const {
  const std::lock_guard lock(mutex_);
  return enqueued_;
}

void Lane::loop() {
#ifdef _OPENMP
  omp_set_num_threads(1);  // for oneDNN: kernels ask for their number of threads themselves
#endif
  Command command;  // a copy: the ring may move while it runs
  for (std::uint64_t next = 0;; ++next) {
    {
      std::unique_lock lock(mutex_);
      idle_ = true;
      work_.wait(lock, [&] { return enqueued_ > next; });
      idle_ = false;
      command = ring_[next % ring_.size()];
    }
    const bool stop = command.kind == Command::Kind::stop;
    try {
      execute(command);
    } catch (const std::exception& error) {
      report_(error.what());
    } catch (...) {
      report_("unknown exception in a lane");
    }
    progress_.advance();
    if (stop) return;
  }
}

void Lane::execute(const Command& command) {
  switch (command.kind) {
    case Command::Kind::run:
      command.prepared->run(command.pointers.data());
      break;
    case Command::Kind::function:
      command.function(command.pointers[0]);
      break;
    case Command::Kind::copy:
      std::memmove(command.pointers[0], command.pointers[1], command.bytes);
      break;
    case Command::Kind::wait:
      command.progress->wait_for(command.position);
      break;
    case Command::Kind::stamp: {
      timespec now{};
      clock_gettime(CLOCK_MONOTONIC, &now);
      *static_cast<double*>(command.pointers[0]) = double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
      break;
    }
    case Command::Kind::mark:
    case Command::Kind::stop:
      break;
  }
}

}  // namespace octachoron::cpu
