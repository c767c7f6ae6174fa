#pragma once
/// An in-order queue with a thread of its own. Enqueueing never blocks, and allocates only where more is in it than ever
/// before: the host must stay free to look after peers while a step runs.
#include <pthread.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "plugins/device/cpu/kernels/kernels.h"

namespace octachoron::cpu {

/// How far a lane has come. Outlives the lane, so that events may still ask.
class Progress {
 public:
  bool past(std::uint64_t position) const;
  void wait_for(std::uint64_t position) const;
  void advance();
  std::uint64_t done() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable moved_;
  mutable int waiting_ = 0;
  std::uint64_t done_ = 0;
};

/// A prepared operation. Called from lane threads, perhaps from several at a time.
class Prepared {
 public:
  virtual ~Prepared() = default;
  virtual void run(void* const* pointers) = 0;
};

struct Command {
  enum class Kind { run, function, copy, stamp, wait, mark, stop };
  Kind kind = Kind::mark;
  Prepared* prepared = nullptr;
  std::array<void*, kPointers>
      pointers{};  // of run; of copy: to, from; of function: argument; of stamp: seconds
  void (*function)(void*) = nullptr;
  std::size_t bytes = 0;
  const Progress* progress = nullptr;  // of wait
  std::uint64_t position = 0;
};

class Lane {
 public:
  /// \param report called in the lane's thread with the text of an error
  Lane(Progress& progress, const std::string& name, std::function<void(const std::string&)> report);
  ~Lane();  // runs what is enqueued first
  Lane(const Lane&) = delete;

  /// \returns the position of the command: it is past when that many commands are done
  std::uint64_t enqueue(const Command& command);
  std::uint64_t enqueued() const;
  Progress& progress() const { return progress_; }

 private:
  static constexpr std::size_t kUsual = 4096;  ///< commands: more than a step of most models has in one lane
  void grow();
  void loop();
  void execute(const Command& command);

  Progress& progress_;
  std::function<void(const std::string&)> report_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  bool idle_ = false;
  std::uint64_t enqueued_ = 0;
  std::vector<Command> ring_;
  std::thread thread_;
};

}  // namespace octachoron::cpu
