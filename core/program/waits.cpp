#include "core/program/waits.h"

#include <algorithm>

namespace octachoron {

namespace {

// What may still conflict on some bytes of a buffer. One writer is enough: it waited for all before it.
struct Entry {
  Box box;
  int writer_lane = -1, writer_event = 0;
  Clock readers{};
};

// A write replaces the entries it covers. Where it covers a part only, the old entry stays whole: a later
// access to the covered part follows this writer, hence all that this writer followed, so the old entry adds
// no wait of its own.
class Hazards {
 public:
  explicit Hazards(const StepProgram& program)
      : program_(program), entries_(program.buffers.size() * program.instances_per_buffer()) {}

  // The events this issue must follow; then records its accesses.
  Clock enter(const Issue& issue, const Call& call) {
    Clock needed{};
    for_each_access(*issue.operation, [&](const View& view, Access access) {
      for (const Entry& entry : entries_of(view, call)) {
        if (!overlap(entry.box, view.box())) continue;
        if (entry.writer_lane >= 0)
          needed[entry.writer_lane] = std::max(needed[entry.writer_lane], entry.writer_event);
        if (writes(access)) join(needed, entry.readers);
      }
    });
    for_each_access(*issue.operation, [&](const View& view, Access access) {
      if (access == Access::read) record_read(entries_of(view, call), view.box(), issue);
    });
    for_each_access(*issue.operation, [&](const View& view, Access access) {
      if (writes(access)) record_write(entries_of(view, call), view.box(), issue);
    });
    return needed;
  }

 private:
  std::vector<Entry>& entries_of(const View& view, const Call& call) {
    return entries_[program_.instance(view.buffer, call)];
  }

  static void record_read(std::vector<Entry>& entries, const Box& box, const Issue& issue) {
    for (Entry& entry : entries) {
      if (!(covers(entry.box, box) && covers(box, entry.box))) continue;
      entry.readers[issue.lane()] = issue.sequence;
      return;
    }
    entries.push_back({box, -1, 0, {}});  // bytes of several entries, or a part of one
    entries.back().readers[issue.lane()] = issue.sequence;
  }

  static void record_write(std::vector<Entry>& entries, const Box& box, const Issue& issue) {
    std::erase_if(entries, [&](const Entry& entry) { return covers(box, entry.box); });
    entries.push_back({box, issue.lane(), issue.sequence, {}});
  }

  const StepProgram& program_;
  std::vector<std::vector<Entry>> entries_;
};

// What the lane and the waits already present say is past when the issue starts.
Clock known_before(const Expansion& expansion, const std::vector<Clock>& clocks, const Issue& issue) {
  Clock known{};
  if (issue.sequence > 1) known = clocks[expansion.issue_of(issue.lane(), issue.sequence - 1)];
  for (int lane = 0; lane < kMaxLanes; ++lane)
    if (issue.waits[lane] > 0) join(known, clocks[expansion.issue_of(lane, issue.waits[lane])]);
  known[issue.lane()] = issue.sequence;
  return known;
}

}  // namespace

std::vector<MissingWait> missing_waits(const StepProgram& program, std::span<const Call> calls) {
  const Expansion expansion = expand(program, calls);
  std::vector<Clock> clocks(expansion.issues.size());
  std::vector<MissingWait> missing;
  Hazards hazards(program);
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    const Issue& issue = expansion.issues[i];
    const Clock needed = hazards.enter(issue, calls[issue.call]);
    const Clock known = known_before(expansion, clocks, issue);
    const auto open = [&](int lane) { return needed[lane] > known[lane]; };
    clocks[i] = known;
    for (int lane = 0; lane < kMaxLanes; ++lane) {
      if (!open(lane)) continue;
      bool implied = false;  // does another open event come after this one?
      for (int other = 0; other < kMaxLanes && !implied; ++other)
        implied = other != lane && open(other) &&
                  clocks[expansion.issue_of(other, needed[other])][lane] >= needed[lane];
      if (implied) continue;
      const Issue& producer = expansion.issues[expansion.issue_of(lane, needed[lane])];
      missing.push_back({issue.call, {issue.index, producer.index, producer.call}});
      join(clocks[i], clocks[expansion.issue_of(lane, needed[lane])]);
    }
  }
  return missing;
}

void derive_waits(StepProgram& program) {
  for (int s = 0; s < int(program.segments.size()); ++s) {
    const Call alone[] = {{s, 0, 0, {}}};
    program.segments[s].waits.clear();
    for (MissingWait& missing : missing_waits(program, alone)) {
      missing.wait.call = kSameCall;
      program.segments[s].waits.push_back(missing.wait);
    }
  }
  for (Call& call : program.schedule.calls) call.waits.clear();
  for (const MissingWait& missing : missing_waits(program, program.schedule.calls))
    program.schedule.calls[missing.call].waits.push_back(missing.wait);
}

}  // namespace octachoron
