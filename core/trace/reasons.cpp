#include "core/trace/reasons.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace octachoron {

namespace {

constexpr double kHidden = 0.05;   // exposed share below which a communication counts as hidden
constexpr double kSlower = 1.1;    // work beside a transfer that takes this much longer was slowed down
constexpr std::size_t kNamed = 3;  // operations a sentence names

std::string ms(double seconds) {
  char number[32];
  std::snprintf(number, sizeof number, "%.3f ms", 1e3 * seconds);
  return number;
}

class Judge {
 public:
  explicit Judge(const Timeline& timeline)
      : timeline_(timeline),
        program_(*timeline.program),
        expansion_(*timeline.expansion),
        clocks_(happens_before(expansion_)),
        gemm_lanes_(gemm_lanes(program_)) {
    std::vector<Span> compute, communication;
    for (const Interval& interval : timeline.intervals) {
      if (is_computation(interval.kind)) compute.push_back(interval.span());
      if (interval.kind == WorkKind::communication) communication.push_back(interval.span());
      if (is_stall(interval)) stalls_.push_back(&interval);
    }
    compute_ = merged(std::move(compute));
    note_undisturbed(merged(std::move(communication)));
  }

  Verdict verdict(const Interval& interval) const {
    Verdict verdict;
    verdict.issue = interval.issue;
    verdict.transfer_s = interval.span().length();
    verdict.hidden_s = length(intersection(merged({interval.span()}), compute_));
    verdict.exposed_skew_s = length(difference(merged({interval.skew()}), compute_));
    if (verdict.cost_s() > kHidden * (verdict.transfer_s + interval.skew().length()))
      explain(interval, verdict);
    return verdict;
  }

 private:
  bool is_stall(const Interval& interval) const {
    return interval.stalled_s > 0 && std::count(gemm_lanes_.begin(), gemm_lanes_.end(), interval.lane) > 0;
  }

  // How long each kind of operation takes when nothing travels.
  void note_undisturbed(const std::vector<Span>& communication) {
    for (const Interval& interval : timeline_.intervals) {
      if (!is_computation(interval.kind)) continue;
      if (!intersection(merged({interval.span()}), communication).empty()) continue;
      auto& [sum, count] = undisturbed_[kind_of(interval)];
      sum += interval.span().length(), ++count;
    }
  }

  std::string kind_of(const Interval& interval) const {
    const Operation& operation = timeline_.operation(interval);
    return text(name(operation.op), ' ', without_layer(operation.label));
  }

  const std::string& label(int issue) const { return expansion_.issues[issue].operation->label; }

  std::string labels(const std::vector<int>& issues) const {
    std::string result;
    for (std::size_t i = 0; i < issues.size() && i < kNamed; ++i)
      result += text(i ? ", '" : "'", label(issues[i]), "'");
    return issues.size() > kNamed ? text(result, " and ", issues.size() - kNamed, " more") : result;
  }

  void explain(const Interval& interval, Verdict& verdict) const {
    const auto say = [&](Reason reason, const auto&... parts) {
      verdict.reason = reason;
      verdict.why = text(parts...);
    };
    if (verdict.exposed_skew_s > verdict.exposed_s())
      return say(Reason::late_peer, "rank ", interval.late_rank, " started it ", ms(interval.skew().length()),
                 " after this rank; the transfer itself took ", ms(verdict.transfer_s));
    const OverlapWindow window = overlap_window(program_, expansion_, clocks_, interval.issue);
    const int lane = window.consumer >= 0   ? expansion_.issues[window.consumer].lane()
                     : !gemm_lanes_.empty() ? gemm_lanes_.front()
                                            : -1;
    const std::vector<int> free = free_computation(program_, expansion_, window, lane);
    if (free.empty()) return say(Reason::consumer_follows, consumer_text(window));
    const auto [other, other_s] = other_wait(interval);
    if (other >= 0 && other_s > verdict.exposed_s() / 2)
      return say(Reason::other_wait, "what is free beside it, ", labels(free), ", waited ", ms(other_s),
                 " for '", label(other), "'");
    double work_s = 0;
    for (const int issue : free) work_s += timeline_.intervals[issue].span().length();
    if (work_s < verdict.transfer_s)
      return say(Reason::window_too_short, labels(free), " take ", ms(work_s), ", the transfer ",
                 ms(verdict.transfer_s));
    say(Reason::shared_resource, resource_text(interval, free), "; ", labels(free), " take ", ms(work_s),
        ", the transfer ", ms(verdict.transfer_s));
  }

  std::string consumer_text(const OverlapWindow& window) const {
    if (window.consumer < 0) return "nothing is left to compute behind it";
    const std::vector<int> movable = movable_computation(program_, expansion_, window);
    return text("'", label(window.consumer), "' needs it and is next; ",
                movable.empty() ? "nothing behind it in its segment is independent"
                                : labels(movable) + " behind it would be independent: the wait is too early");
  }

  // The communication, other than this one, for which lanes with GEMMs waited longest while this one was
  // exposed.
  std::pair<int, double> other_wait(const Interval& interval) const {
    const std::vector<Span> exposed = difference(merged({interval.span()}), compute_);
    std::map<int, double> seconds;
    for (const Interval* stall : stalls_) {
      const Span time = timeline_.stall(*stall);
      if (stall->waited_for == interval.issue || time.begin_s >= interval.end_s ||
          time.end_s <= interval.begin_s)
        continue;
      if (timeline_.intervals[stall->waited_for].kind != WorkKind::communication) continue;
      seconds[stall->waited_for] += length(intersection(exposed, merged({time})));
    }
    std::pair<int, double> longest{-1, 0};
    for (const auto& [issue, s] : seconds)
      if (s > longest.second) longest = {issue, s};
    return longest;
  }

  std::string resource_text(const Interval& interval, const std::vector<int>& free) const {
    const Issue& issue = expansion_.issues[interval.issue];
    if (issue.sequence > 1) {
      const int previous = expansion_.issue_of(issue.lane(), issue.sequence - 1);
      if (const double queued = queued_s(issue, timeline_.intervals[previous]);
          queued > interval.span().length() / 2)
        return text("it stood ", ms(queued), " behind '", label(previous), "' in lane ",
                    program_.lanes[issue.lane()].name);
    }
    if (!timeline_.network.concurrent && interval.waited_for >= 0 &&
        timeline_.intervals[interval.waited_for].kind == WorkKind::communication)
      return text("messages of this network travel one after another, and it waited for '",
                  label(interval.waited_for), "'");
    if (const double factor = slowdown(interval, free); factor > kSlower) {
      char number[32];
      std::snprintf(number, sizeof number, "%.2f", factor);
      return text("the work beside it took ", number, " times what it takes alone");
    }
    if (timeline_.network.shares_cores) return "transfers are driven by the cores that compute";
    return "its lane and the computing one did not run at once";
  }

  // How long, at least, it was ready but for the operation before it in its lane. Without a wait of its own it was ready
  // when that began, which had waited for as much.
  double queued_s(const Issue& issue, const Interval& previous) const {
    double ready = 0;
    bool waits = false;
    for (int lane = 0; lane < kMaxLanes; ++lane) {
      if (issue.waits[lane] == 0 || lane == issue.lane()) continue;
      waits = true;
      ready = std::max(ready, timeline_.intervals[expansion_.issue_of(lane, issue.waits[lane])].end_s);
    }
    return previous.end_s - (waits ? std::max(ready, previous.entered_s) : previous.begin_s);
  }

  double slowdown(const Interval& interval, const std::vector<int>& free) const {
    double beside = 0, alone = 0;
    for (const int issue : free) {
      const Interval& work = timeline_.intervals[issue];
      const auto known = undisturbed_.find(kind_of(work));
      if (known == undisturbed_.end() || work.begin_s >= interval.end_s || work.end_s <= interval.begin_s)
        continue;
      beside += work.span().length(), alone += known->second.first / known->second.second;
    }
    return alone > 0 ? beside / alone : 0;
  }

  const Timeline& timeline_;
  const StepProgram& program_;
  const Expansion& expansion_;
  std::vector<Clock> clocks_;
  std::vector<int> gemm_lanes_;
  std::vector<Span> compute_;
  std::vector<const Interval*> stalls_;
  std::map<std::string, std::pair<double, int>> undisturbed_;  // by kind of operation: seconds, count
};

}  // namespace

const char* name(Reason reason) {
  static constexpr const char* names[] = {"hidden",     "consumer follows at once", "window too short",
                                          "other wait", "shared resource",          "late peer"};
  return names[int(reason)];
}

std::vector<Verdict> judge(const Timeline& timeline) {
  const Judge judged(timeline);
  std::vector<Verdict> verdicts;
  for (const Interval& interval : timeline.intervals)
    if (interval.kind == WorkKind::communication) verdicts.push_back(judged.verdict(interval));
  return verdicts;
}

}  // namespace octachoron
