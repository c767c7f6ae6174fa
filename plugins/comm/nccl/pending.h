#pragma once
/// What was enqueued on each lane and is not through, for messages to people: an event behind each message.
#include <chrono>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "plugins/comm/messages.h"

namespace octachoron::nccl {

using Clock = std::chrono::steady_clock;

class Pending {
 public:
  Pending(const oct_device_table& table, oct_device* device) : table_(table), device_(device) {}
  ~Pending();
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  /// Enqueued on the lane just now, with `more` others of one exchange. The group must live as long as this.
  void add(oct_lane* lane, const comm::Group& group, const oct_message& message, std::size_t more);
  /// The oldest of each lane; empty if nothing is under way.
  std::string describe();

 private:
  struct Sent {
    const comm::Group* group;
    oct_message message;
    std::size_t more;
    Clock::time_point since;
    oct_event* event;
  };
  void drop_past(std::deque<Sent>& lane);
  oct_event* take_event();

  const oct_device_table& table_;
  oct_device* device_;
  std::unordered_map<oct_lane*, std::deque<Sent>> lanes_;
  std::vector<oct_event*> events_, free_;
};

}  // namespace octachoron::nccl
