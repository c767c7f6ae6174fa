#pragma once
/// Records of what the GPUs of this process did, from CUPTI's activities. The library is looked for at run
/// time, so that the plugin loads without it.
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "plugins/device/cuda/span_times.h"

namespace octachoron::cuda {

struct Records {
  std::vector<Work> works;
  std::vector<Link> links;
};

/// One for the process, as CUPTI is: its callbacks say nothing of who asked. One device at a time may use it.
class Recorder {
 public:
  static Recorder& instance();
  Recorder(const Recorder&) = delete;

  /// Begins to record. \returns why it cannot; empty: it does
  std::string start();
  void stop();
  /// Calls of this thread are made within this span, until pop(). They nest.
  void push(std::uint64_t span);
  void pop();
  /// The clock of the records.
  std::int64_t now_ns() const;
  /// Hands over what is recorded and complete. \param forced also drops what is not
  void flush(bool forced);
  /// What was handed over since the last call.
  Records take();

  /// Calls `instantiate`, which makes a graph ready. \returns for each of its nodes the number that records
  /// of a launch will name; nothing where that cannot be known
  std::unordered_map<const void*, std::uint64_t> numbered(const std::function<void()>& instantiate);

  /// From CUPTI's threads.
  std::uint8_t* lend_buffer();
  void read_buffer(std::uint8_t* buffer, std::size_t bytes);
  static constexpr std::size_t kBufferBytes = std::size_t(4) << 20;

 private:
  Recorder() = default;

  bool running_ = false, registered_ = false;
  std::mutex mutex_;
  Records records_;
  std::vector<std::uint8_t*> buffers_;  // not lent
};

}  // namespace octachoron::cuda
