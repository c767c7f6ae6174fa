#include "plugins/comm/nccl/pending.h"

#include <cstdio>

namespace octachoron::nccl {

namespace {

// Asking for an event costs more than recording one: it is done once in so many messages of a lane.
constexpr std::size_t kUnasked = 64;
constexpr int kNamed = 8;

/// "waiting for rank 3", "waiting for one of ranks 1 2 3": NCCL does not tell which of them is late.
std::string others(const comm::Group& group, const oct_message& message) {
  if (!comm::is_collective(message.kind))
    return "waiting for rank " + std::to_string(group.ranks[std::size_t(message.peer)]);
  std::string text;
  int named = 0;
  for (int place = 0; place < group.size() && named < kNamed; ++place) {
    if (place == group.place) continue;
    text.append(" ").append(std::to_string(group.ranks[std::size_t(place)]));
    ++named;
  }
  const int rest = group.size() - 1 - named;
  if (rest > 0) text.append(" and ").append(std::to_string(rest)).append(" more");
  return (group.size() == 2 ? "waiting for rank" : "waiting for one of ranks") + text;
}

}  // namespace

Pending::~Pending() {
  for (oct_event* event : events_) table_.event_destroy(device_, event);
}

void Pending::add(oct_lane* lane, const comm::Group& group, const oct_message& message, std::size_t more) {
  std::deque<Sent>& sent = lanes_[lane];
  if (sent.size() >= kUnasked) drop_past(sent);
  oct_event* event = take_event();
  if (event == nullptr) return;
  if (table_.event_record(device_, event, lane) == OCT_OK)
    sent.push_back({&group, message, more, Clock::now(), event});
  else
    free_.push_back(event);
}

oct_event* Pending::take_event() {
  if (free_.empty()) {
    oct_event* event = nullptr;
    if (table_.event_create(device_, &event) != OCT_OK) return nullptr;  // a message less in the description
    events_.push_back(event);
    return event;
  }
  oct_event* event = free_.back();
  free_.pop_back();
  return event;
}

void Pending::drop_past(std::deque<Sent>& lane) {
  while (!lane.empty()) {
    int32_t past = 0;
    const oct_status status = table_.event_query(device_, lane.front().event, &past);
    if (status == OCT_OK && past == 0) return;
    free_.push_back(lane.front().event);
    lane.pop_front();
  }
}

std::string Pending::describe() {
  std::string text;
  for (auto& [lane, sent] : lanes_) {
    drop_past(sent);
    if (sent.empty()) continue;
    const Sent& oldest = sent.front();
    if (!text.empty()) text += "; ";
    text += comm::describe(*oldest.group, oldest.message);
    if (oldest.more > 0) text.append(" and ").append(std::to_string(oldest.more)).append(" more");
    const double seconds = std::chrono::duration<double>(Clock::now() - oldest.since).count();
    char enqueued[64];
    std::snprintf(enqueued, sizeof enqueued, ", enqueued %.1f s ago, ", seconds);
    text += enqueued + others(*oldest.group, oldest.message);
  }
  return text;
}

}  // namespace octachoron::nccl
