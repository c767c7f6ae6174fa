#include "core/trace/intervals.h"

#include <algorithm>
#include <set>

namespace octachoron {

std::vector<Span> merged(std::vector<Span> spans) {
  std::erase_if(spans, [](const Span& span) { return !(span.end_s > span.begin_s); });
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin_s < b.begin_s; });
  std::vector<Span> result;
  for (const Span& span : spans) {
    if (!result.empty() && span.begin_s <= result.back().end_s)
      result.back().end_s = std::max(result.back().end_s, span.end_s);
    else
      result.push_back(span);
  }
  return result;
}

double length(const std::vector<Span>& spans) {
  double sum = 0;
  for (const Span& span : spans) sum += span.length();
  return sum;
}

std::vector<Span> intersection(const std::vector<Span>& a, const std::vector<Span>& b) {
  std::vector<Span> result;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const Span both{std::max(a[i].begin_s, b[k].begin_s), std::min(a[i].end_s, b[k].end_s)};
    if (both.end_s > both.begin_s) result.push_back(both);
    a[i].end_s < b[k].end_s ? ++i : ++k;
  }
  return result;
}

std::vector<Span> difference(const std::vector<Span>& a, const std::vector<Span>& b) {
  std::vector<Span> result;
  std::size_t first = 0;
  for (const Span& span : a) {
    double from = span.begin_s;
    while (first < b.size() && b[first].end_s <= from) ++first;
    for (std::size_t k = first; k < b.size() && b[k].begin_s < span.end_s; ++k) {
      if (b[k].begin_s > from) result.push_back({from, b[k].begin_s});
      from = std::max(from, b[k].end_s);
    }
    if (from < span.end_s) result.push_back({from, span.end_s});
  }
  return result;
}

namespace {

template <class Predicate>
std::vector<Span> spans_of(std::span<const Interval> intervals, Predicate predicate) {
  std::vector<Span> spans;
  for (const Interval& interval : intervals)
    if (predicate(interval)) spans.push_back(interval.span());
  return merged(std::move(spans));
}

// Which of the five columns a communication belongs to.
int column(AxisSet axes) {
  return std::popcount(axes.bits) == 1 ? int(axes.first()) : kMixed;
}

// Each exposed moment is counted once: where messages of several columns travel at once, as mixed.
std::array<double, kAxes + 1> by_axis(std::span<const Interval> intervals, const std::vector<Span>& exposed) {
  std::array<double, kAxes + 1> result{};
  std::array<std::vector<Span>, kAxes + 1> of;
  for (int c = 0; c <= kMixed; ++c)
    of[c] = intersection(exposed, spans_of(intervals, [&](const Interval& interval) {
                           return interval.kind == WorkKind::communication && column(interval.axes) == c;
                         }));
  for (int c = 0; c < kMixed; ++c) {
    std::vector<Span> others;
    for (int other = 0; other <= kMixed; ++other)
      if (other != c) others.insert(others.end(), of[other].begin(), of[other].end());
    result[c] = 1e3 * length(difference(of[c], merged(std::move(others))));
  }
  double sum = 0;
  for (int c = 0; c < kMixed; ++c) sum += result[c];
  // What is left, without the dust of the subtraction where nothing is.
  const double left = 1e3 * length(exposed) - sum;
  result[kMixed] = left > 1e-9 * sum ? left : 0;
  return result;
}

}  // namespace

Accounting account(std::span<const Interval> intervals, double step_s) {
  const auto compute = spans_of(intervals, [](const Interval& i) { return is_computation(i.kind); });
  const auto comm = spans_of(intervals, [](const Interval& i) { return i.kind == WorkKind::communication; });
  Accounting result;
  result.step = 1e3 * step_s;
  result.compute = 1e3 * length(compute);
  result.comm = 1e3 * length(comm);
  result.overlap = 1e3 * length(intersection(compute, comm));
  result.exposed = result.comm - result.overlap;
  result.idle = result.step - (result.compute + result.comm - result.overlap);
  result.exposed_by_axis = by_axis(intervals, difference(comm, compute));
  std::set<int> gemm_lanes;
  for (const Interval& interval : intervals)
    if (interval.kind == WorkKind::gemm) gemm_lanes.insert(interval.lane);
  for (const Interval& interval : intervals)
    if (gemm_lanes.count(interval.lane)) result.stall += 1e3 * interval.stalled_s;
  return result;
}

}  // namespace octachoron
