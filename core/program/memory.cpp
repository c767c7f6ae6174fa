#include "core/program/memory.h"

#include <algorithm>
#include <limits>

#include "core/base/checked.h"

namespace octachoron {

namespace {

struct Lifetime {           // of one value: from its first write to its last access
  int first = 0, last = 0;  // issues, in program order
  Clock before;             // events known to be past at each of its accesses
  Clock after{};            // its last event on each lane
};

struct Instance {
  int id = 0;
  std::int64_t bytes = 0;
  const Buffer* buffer = nullptr;
  std::vector<Lifetime> lifetimes;  // in program order
};

class LifetimeScan {
 public:
  explicit LifetimeScan(const StepProgram& program)
      : program_(program),
        expansion_(expand(program)),
        clocks_(happens_before(expansion_)),
        instances_(program.buffers.size() * program.instances_per_buffer()) {}

  std::vector<Instance> run() {
    // Used or not: programs that declare the same persistent buffers agree on them.
    for (int buffer = 0; buffer < int(program_.buffers.size()); ++buffer)
      for (int k = 0; k < program_.instances(buffer) && program_.buffers[buffer].persistent; ++k)
        make(buffer * program_.instances_per_buffer() + k, program_.buffers[buffer]);
    for (int i = 0; i < int(clocks_.size()); ++i) {
      const Operation& operation = *expansion_.issues[i].operation;
      for_each_access(operation, [&](const View& view, Access access) {
        if (octachoron::reads(access)) extend(i, view, false);
      });
      for_each_access(operation, [&](const View& view, Access access) {
        if (access == Access::write) extend(i, view, view.bytes() == program_.buffers[view.buffer].bytes);
      });
    }
    const int end = int(clocks_.size());
    for (Instance& instance : instances_)
      if (instance.buffer && instance.buffer->kept && !instance.lifetimes.empty()) {
        instance.lifetimes.back().last = end;
        instance.lifetimes.back().after.fill(std::numeric_limits<int>::max());
      }
    std::erase_if(instances_, [](const Instance& instance) { return !instance.buffer; });
    return std::move(instances_);
  }

 private:
  Instance& make(int id, const Buffer& buffer) {
    Instance& instance = instances_[id];
    if (!instance.buffer)
      instance = {id, round_up(std::max<std::int64_t>(buffer.bytes, 1), kAlignment), &buffer, {}};
    return instance;
  }

  void extend(int i, const View& view, bool begins_a_value) {
    const Issue& issue = expansion_.issues[i];
    const Buffer& buffer = program_.buffers[view.buffer];
    const int id = program_.instance(view.buffer, program_.schedule.calls[issue.call]);
    Instance& instance = make(id, buffer);
    Clock before = clocks_[i];
    --before[issue.lane()];
    auto& lifetimes = instance.lifetimes;
    if (lifetimes.empty() || (begins_a_value && lifetimes.back().last < i))
      lifetimes.push_back({i, i, before, {}});
    Lifetime& lifetime = lifetimes.back();
    lifetime.last = i;
    for (int lane = 0; lane < kMaxLanes; ++lane)
      lifetime.before[lane] = std::min(lifetime.before[lane], before[lane]);
    lifetime.after[issue.lane()] = issue.sequence;
  }

  const StepProgram& program_;
  Expansion expansion_;
  std::vector<Clock> clocks_;
  std::vector<Instance> instances_;
};

bool ordered_before(const Lifetime& a, const Lifetime& b) {  // on every lane, whatever the timing
  for (int lane = 0; lane < kMaxLanes; ++lane)
    if (a.after[lane] > b.before[lane]) return false;
  return true;
}

// Merges the lifetimes of two instances in program order. The order is transitive, so neighbours are enough.
bool may_share(const Instance& a, const Instance& b) {
  if (a.buffer->persistent || b.buffer->persistent) return false;
  const Lifetime* previous = nullptr;
  const std::vector<Lifetime>* owner = nullptr;
  for (auto x = a.lifetimes.begin(), y = b.lifetimes.begin();
       x != a.lifetimes.end() || y != b.lifetimes.end();) {
    const bool from_a = y == b.lifetimes.end() || (x != a.lifetimes.end() && x->first < y->first);
    const Lifetime& next = from_a ? *x++ : *y++;
    const auto* next_owner = from_a ? &a.lifetimes : &b.lifetimes;
    if (previous && owner != next_owner && !ordered_before(*previous, next)) return false;
    previous = &next;
    owner = next_owner;
  }
  return true;
}

// Of an instance with one value: from its first to its last issue. Most pairs are decided by this alone, and
// there are instances^2 / 2 of them. With more values: nothing, which overlaps with nothing.
struct Span {
  int first = std::numeric_limits<int>::max(), last = -1;
  bool overlaps(const Span& other) const { return first <= other.last && other.first <= last; }
};
Span span_of(const Instance& instance) {
  if (instance.lifetimes.size() != 1) return {};
  return {instance.lifetimes[0].first, instance.lifetimes[0].last};
}

struct Placed {
  std::int64_t begin = 0, end = 0;
  Span span;
  const Instance* instance = nullptr;
};

// `placed` is sorted by address.
std::int64_t first_fit(const Instance& instance, const std::vector<Placed>& placed) {
  const Span span = span_of(instance);
  std::int64_t at = 0;
  for (const Placed& other : placed) {
    if (other.begin >= at + instance.bytes) break;  // what conflicts further up does not matter
    if (other.end <= at) continue;
    if (span.overlaps(other.span) || !may_share(instance, *other.instance)) at = other.end;
  }
  return at;
}

bool is_live(const Instance& instance, int issue) {
  if (instance.buffer->persistent) return true;
  for (const Lifetime& lifetime : instance.lifetimes)
    if (lifetime.first <= issue && issue <= lifetime.last) return true;
  return false;
}

void find_peak(const std::vector<Instance>& instances, MemoryPlan& plan) {
  std::vector<std::pair<int, std::int64_t>> changes;
  for (const Instance& instance : instances) {
    if (instance.buffer->memory == MemoryClass::host) continue;
    if (instance.buffer->persistent) {
      changes.push_back({-1, instance.bytes});
      continue;
    }
    for (const Lifetime& lifetime : instance.lifetimes) {
      changes.push_back({lifetime.first, instance.bytes});
      changes.push_back({lifetime.last + 1, -instance.bytes});
    }
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t live = 0;
  int peak = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    live += changes[i].second;
    const bool last_of_issue = i + 1 == changes.size() || changes[i + 1].first != changes[i].first;
    if (last_of_issue && live > plan.live_bytes) plan.live_bytes = live, peak = changes[i].first;
  }
  for (const Instance& instance : instances)
    if (instance.buffer->memory == MemoryClass::host || is_live(instance, peak))
      plan.by_class[int(instance.buffer->memory)] += instance.bytes;
}

}  // namespace

MemoryPlan plan_memory(const StepProgram& program) {
  std::vector<Instance> instances = LifetimeScan(program).run();
  MemoryPlan plan;
  find_peak(instances, plan);
  std::stable_sort(instances.begin(), instances.end(), [](const Instance& a, const Instance& b) {
    if (a.buffer->persistent != b.buffer->persistent) return a.buffer->persistent;
    if (a.buffer->persistent) return a.id < b.id;
    return a.bytes > b.bytes;
  });
  plan.placement.assign(program.buffers.size() * program.instances_per_buffer(), -1);
  std::vector<Placed> placed;
  for (const Instance& instance : instances) {
    std::int64_t& at = plan.placement[instance.id];
    if (instance.buffer->memory == MemoryClass::host) {
      at = plan.host_bytes;
      plan.host_bytes += instance.bytes;
      continue;
    }
    at = first_fit(instance, placed);
    plan.arena_bytes = std::max(plan.arena_bytes, at + instance.bytes);
    plan.apart_bytes += instance.bytes;
    const auto place = std::upper_bound(placed.begin(), placed.end(), at,
                                        [](std::int64_t value, const Placed& p) { return value < p.begin; });
    placed.insert(place, {at, at + instance.bytes, span_of(instance), &instance});
  }
  return plan;
}

}  // namespace octachoron
