#include "core/trace/timeline.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/numerics/random.h"

namespace octachoron {

namespace {

// A send and its receive are one message: both are named by the direction in which it travels.
std::string message_name(const StepProgram& program, const Issue& issue) {
  const Operation& operation = *issue.operation;
  const Peers& peers = operation.peers;
  const bool message = is_point_to_point(operation.op);
  const int direction = operation.op == OCT_RECEIVE ? -peers.shift : peers.shift;
  return text(message ? "message" : name(operation.op), '|', int(peers.axes.bits), '|', peers.block, '|',
              peers.purpose, '|', direction, '|', operation.label, '|',
              program.schedule.calls[issue.call].micro_batch);
}

// Keys of all communications in program order; of several with one name, the n-th meets the n-th.
std::vector<std::uint64_t> message_keys(const StepProgram& program, const Expansion& expansion) {
  std::map<std::string, int> seen;
  std::vector<std::uint64_t> keys;
  for (const Issue& issue : expansion.issues) {
    const bool counts = is_communication(issue.operation->op);
    const std::string name = counts ? message_name(program, issue) : "";
    keys.push_back(counts ? hash64(text(name, '|', seen[name]++)) : 0);
  }
  return keys;
}

std::vector<int> members(const ProcessGrid& grid, int rank, const Operation& operation) {
  const Peers& peers = operation.peers;
  if (is_point_to_point(operation.op)) return {rank, grid.neighbour(rank, peers.axes.first(), peers.shift)};
  return grid.group(rank, peers.axes, peers.block);
}

struct Latest {
  double begin_s = 0;
  int rank = -1;  // -1: this one
};

Latest latest_begin(const AllBegins& begins, const std::vector<int>& ranks, int own,
                    CommunicationBegin mine) {
  Latest latest{mine.begin_s, -1};
  for (const int rank : ranks) {
    if (rank == own) continue;
    const auto& of = begins[std::size_t(rank)];
    const auto found = std::lower_bound(of.begin(), of.end(), mine);
    if (found != of.end() && found->key == mine.key && found->begin_s > latest.begin_s)
      latest = {found->begin_s, rank};
  }
  return latest;
}

// A lane stalls from the end of its previous operation to the end of the last one it waits for.
class Stalls {
 public:
  Stalls(const Timeline& timeline, std::span<const OperationRecord> records)
      : timeline_(timeline), records_(records), last_of_lane_(kMaxLanes, -1) {
    for (const OperationRecord& record : records)
      start_s_ = &record == records.data() ? record.begin_s : std::min(start_s_, record.begin_s);
  }

  // Called in program order.
  void note(int issue, Interval& interval) {
    const Issue& is = timeline_.expansion->issues[issue];
    const auto consider = [&](int other) {
      if (interval.waited_for < 0 || records_[other].end_s > records_[interval.waited_for].end_s)
        interval.waited_for = other;
    };
    for (int lane = 0; lane < kMaxLanes; ++lane)
      if (is.waits[lane] > 0 && lane != is.lane())
        consider(timeline_.expansion->issue_of(lane, is.waits[lane]));
    if (is_communication(is.operation->op)) {
      if (!timeline_.network.concurrent && last_message_ >= 0) consider(last_message_);
      last_message_ = issue;
    }
    const int previous = last_of_lane_[is.lane()];
    last_of_lane_[is.lane()] = issue;
    if (interval.waited_for < 0) return;
    const double ready = std::min(records_[interval.waited_for].end_s, records_[issue].begin_s);
    interval.stalled_s = std::max(0.0, ready - (previous < 0 ? start_s_ : records_[previous].end_s));
  }

 private:
  const Timeline& timeline_;
  std::span<const OperationRecord> records_;
  std::vector<int> last_of_lane_;
  int last_message_ = -1;
  double start_s_ = 0;
};

}  // namespace

AxisSet real_axes(const ProcessGrid& grid, const Peers& peers) {
  AxisSet axes;
  for (int axis = 0; axis < kAxes; ++axis)
    if (peers.axes.has(Axis(axis)) && grid.extent[axis] > 1) axes = axes | Axis(axis);
  return axes;
}

std::vector<CommunicationBegin> communication_begins(const StepProgram& program, const Expansion& expansion,
                                                     std::span<const OperationRecord> records,
                                                     double offset_s) {
  std::vector<CommunicationBegin> begins;
  const std::vector<std::uint64_t> keys = message_keys(program, expansion);
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (is_communication(expansion.issues[i].operation->op))
      begins.push_back({keys[i], records[i].begin_s - offset_s});
  std::sort(begins.begin(), begins.end());
  return begins;
}

AllBegins gather_begins(const World& world, const std::vector<CommunicationBegin>& mine) {
  const auto most = std::size_t(world.maximum(std::int64_t(mine.size())));
  std::vector<std::uint64_t> counts(std::size_t(world.size()));
  const std::uint64_t count = mine.size();
  world.allgather(&count, counts.data(), sizeof count);
  std::vector<CommunicationBegin> padded(mine), all(most * std::size_t(world.size()));
  padded.resize(most);
  world.allgather(padded.data(), all.data(), most * sizeof(CommunicationBegin));
  AllBegins begins;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const auto first = all.begin() + std::ptrdiff_t(rank * most);
    begins.emplace_back(first, first + std::ptrdiff_t(counts[rank]));
  }
  return begins;
}

Timeline make_timeline(Timeline timeline, std::span<const OperationRecord> records, double offset_s,
                       const AllBegins& begins) {
  const Expansion& expansion = *timeline.expansion;
  ensure(records.size() == expansion.issues.size(), "a timeline of ", records.size(), " records for ",
         expansion.issues.size(), " operations");
  const std::vector<std::uint64_t> keys = message_keys(*timeline.program, expansion);
  Stalls stalls(timeline, records);
  timeline.intervals.clear();
  for (int i = 0; i < int(records.size()); ++i) {
    const Operation& operation = *expansion.issues[i].operation;
    Interval interval;
    interval.issue = i, interval.lane = operation.lane;
    interval.kind = work_kind(*timeline.program, operation);
    interval.entered_s = interval.begin_s = records[i].begin_s - offset_s;
    interval.end_s = records[i].end_s - offset_s;
    if (interval.kind == WorkKind::communication) {
      interval.axes = real_axes(timeline.grid, operation.peers);
      const Latest latest = latest_begin(begins, members(timeline.grid, timeline.rank, operation),
                                         timeline.rank, {keys[i], interval.entered_s});
      // Clocks of other nodes, and messages that need no answer, may say that it ended before all had begun.
      interval.begin_s = std::min(latest.begin_s, interval.end_s);
      interval.late_rank = latest.rank;
    }
    stalls.note(i, interval);
    timeline.intervals.push_back(interval);
  }
  return timeline;
}

}  // namespace octachoron
