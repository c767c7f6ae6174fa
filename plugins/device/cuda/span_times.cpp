#include "plugins/device/cuda/span_times.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace octachoron::cuda {

void Period::cover(const Period& other) {
  if (other.empty()) return;
  if (empty()) {
    *this = other;
    return;
  }
  begin_ns = std::min(begin_ns, other.begin_ns);
  end_ns = std::max(end_ns, other.end_ns);
}

std::vector<Period> periods(std::span<const Work> works, std::span<const Link> links,
                            const Launches& launches, std::size_t spans) {
  std::unordered_map<std::uint32_t, std::uint64_t> span_of;
  span_of.reserve(links.size());
  for (const Link& link : links) span_of[link.call] = link.span;
  std::vector<Period> result(spans);
  for (const Work& work : works) {
    auto found = span_of.find(work.call);
    if (found == span_of.end() && work.runtime_call != 0) found = span_of.find(work.runtime_call);
    if (found == span_of.end()) continue;
    std::uint64_t span = found->second;
    if (const auto launch = launches.find(span); launch != launches.end()) {
      const auto node = launch->second->find(work.node);
      if (node != launch->second->end()) span += 1 + node->second;
    }
    if (span > 0 && span <= spans) result[span - 1].cover(work.when);
  }
  return result;
}

void fill_empty(std::vector<Period>& periods, std::span<const void* const> lanes) {
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::int64_t first = never;
  std::unordered_map<const void*, std::int64_t>
      last_end;  // of a lane; before its first span: the begin of that
  for (std::size_t i = 0; i < periods.size(); ++i) {
    if (periods[i].empty()) continue;
    first = std::min(first, periods[i].begin_ns);
    last_end.try_emplace(lanes[i], periods[i].begin_ns);
  }
  if (first == never) return;
  for (std::size_t i = 0; i < periods.size(); ++i) {
    std::int64_t& end = last_end.try_emplace(lanes[i], first).first->second;
    if (periods[i].empty()) periods[i] = {end, end};
    end = periods[i].end_ns;
  }
}

ClockLine::Anchor ClockLine::anchor(std::vector<ClockSample> samples) {
  const auto middle_ns = [](const ClockSample& s) {
    return s.kernel.begin_ns + (s.kernel.end_ns - s.kernel.begin_ns) / 2;
  };
  const auto ahead_ns = [&](const ClockSample& s) { return s.device_ns - middle_ns(s); };
  const auto median = samples.begin() + std::ptrdiff_t(samples.size() / 2);
  std::nth_element(samples.begin(), median, samples.end(),
                   [&](const ClockSample& a, const ClockSample& b) { return ahead_ns(a) < ahead_ns(b); });
  return {middle_ns(*median), ahead_ns(*median)};
}

ClockLine::ClockLine(std::vector<ClockSample> early, std::vector<ClockSample> late)
    : early_(anchor(early.empty() ? late : early)), late_(late.empty() ? early_ : anchor(std::move(late))) {}

double ClockLine::seconds(std::int64_t recorder_ns) const {
  std::int64_t ahead_ns = early_.ahead_ns;
  if (late_.at_ns > early_.at_ns) {
    const double way = double(recorder_ns - early_.at_ns) / double(late_.at_ns - early_.at_ns);
    ahead_ns += std::int64_t(way * double(late_.ahead_ns - early_.ahead_ns));
  }
  return double(recorder_ns + ahead_ns) * 1e-9;  // as the kernel of a stamp computes it
}

}  // namespace octachoron::cuda
