#include "core/trace/chrome.h"

#include <cstdio>
#include <map>

#include "core/base/json.h"
#include "core/plugin/dtype.h"

namespace octachoron {

namespace {

class Events {
 public:
  Events(const Timeline& timeline, double origin_s) : timeline_(timeline), origin_s_(origin_s) {}

  void name_rank() {
    const Coordinate at = timeline_.grid.coordinate(timeline_.rank);
    std::string place;
    for (const Axis axis : {Axis::dp, Axis::tp, Axis::pp, Axis::cp})
      place += text(' ', name(axis), '=', at[int(axis)]);
    metadata("process_name", 0, text("rank ", timeline_.rank, ':', place));
    for (int lane = 0; lane < int(timeline_.program->lanes.size()); ++lane)
      metadata("thread_name", lane, timeline_.program->lanes[lane].name);
  }

  void add(const std::string& label, const char* category, int lane, const Span& span,
           const std::string& arguments) {
    if (span.length() < 0) return;
    char times[96];
    std::snprintf(times, sizeof times, "\"ts\":%.3f,\"dur\":%.3f", 1e6 * (span.begin_s - origin_s_),
                  1e6 * span.length());
    append(text("{\"name\":", json_text(label), ",\"cat\":\"", category, "\",\"ph\":\"X\",\"pid\":",
                timeline_.rank, ",\"tid\":", lane, ',', times, ",\"args\":{", arguments, "}}"));
  }

  std::string take() { return std::move(out_); }

 private:
  void metadata(const char* what, int lane, const std::string& value) {
    append(text("{\"name\":\"", what, "\",\"ph\":\"M\",\"pid\":", timeline_.rank, ",\"tid\":", lane,
                ",\"args\":{\"name\":", json_text(value), "}}"));
  }
  void append(const std::string& event) { out_ += out_.empty() ? event : ",\n" + event; }

  const Timeline& timeline_;
  double origin_s_;
  std::string out_;
};

const char* category(WorkKind kind) {
  static constexpr const char* names[] = {"gemm", "compute", "communication", "host copy"};
  return names[int(kind)];
}

std::string group_text(const Timeline& timeline, const Interval& interval) {
  const Peers& peers = timeline.operation(interval).peers;
  std::string ranks;
  for (const int rank : timeline.grid.group(timeline.rank, peers.axes, peers.block))
    ranks += text(ranks.empty() ? "" : " ", rank);
  return text(to_string(interval.axes), " (", peers.purpose, "): ranks ", ranks);
}

// For comparisons with what a device can do: the type of the first operand, arithmetic and memory traffic.
std::string cost_arguments(const Timeline& timeline, const Issue& issue) {
  if (!timeline.cost) return "";
  const OperationCost cost = timeline.cost(issue);
  return text(",\"type\":\"", name(issue.operation->operands.front().view.dtype),
              "\",\"flops\":", json_number(cost.flops), ",\"memory_bytes\":", json_number(cost.bytes));
}

std::string arguments(const Timeline& timeline, const Interval& interval, const Verdict* verdict) {
  const Operation& operation = timeline.operation(interval);
  const Issue& issue = timeline.expansion->issues[interval.issue];
  const Call& call = timeline.program->schedule.calls[issue.call];
  std::string out = text("\"operation\":\"", name(operation.op),
                         "\",\"segment\":", json_text(timeline.program->segments[call.segment].name),
                         ",\"micro_batch\":", call.micro_batch);
  if (verdict == nullptr) return out + cost_arguments(timeline, issue);
  return out + text(",\"bytes\":", message_view(operation).bytes(),
                    ",\"group\":", json_text(group_text(timeline, interval)),
                    ",\"hidden_ms\":", json_number(1e3 * verdict->hidden_s),
                    ",\"exposed_ms\":", json_number(1e3 * verdict->exposed_s()),
                    ",\"reason\":", json_text(name(verdict->reason)), ",\"why\":", json_text(verdict->why));
}

}  // namespace

std::string chrome_events(const Timeline& timeline, const std::vector<Verdict>& verdicts, double origin_s) {
  std::map<int, const Verdict*> of;
  for (const Verdict& verdict : verdicts) of[verdict.issue] = &verdict;
  Events events(timeline, origin_s);
  events.name_rank();
  for (const Interval& interval : timeline.intervals) {
    const std::string& label = timeline.operation(interval).label;
    if (interval.stalled_s > 0) {
      events.add(
          "wait", "wait", interval.lane, timeline.stall(interval),
          text("\"for\":", json_text(timeline.operation(timeline.intervals[interval.waited_for]).label),
               ",\"before\":", json_text(label)));
    }
    if (interval.skew().length() > 0)
      events.add("skew", "skew", interval.lane, interval.skew(),
                 text("\"of\":", json_text(label), ",\"late_rank\":", interval.late_rank));
    const auto found = of.find(interval.issue);
    events.add(label, category(interval.kind), interval.lane, interval.span(),
               arguments(timeline, interval, found == of.end() ? nullptr : found->second));
  }
  return events.take();
}

std::string chrome_begin() {
  return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
}

std::string chrome_end(const std::string& summary) {
  return "\n],\"otherData\":" + summary + "}\n";
}

}  // namespace octachoron
