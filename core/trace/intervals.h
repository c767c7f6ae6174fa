#pragma once
/// The accounting of a step (contract, section 4) as arithmetic on intervals. Pure: knows no run.
#include <array>
#include <span>
#include <vector>

#include "core/schedule/windows.h"

namespace octachoron {

/// Half-open, seconds of one clock.
struct Span {
  double begin_s = 0, end_s = 0;
  double length() const { return end_s - begin_s; }
};

/// Sorted, disjoint spans that cover the same times; empty ones are dropped.
std::vector<Span> merged(std::vector<Span> spans);
/// Of merged spans.
double length(const std::vector<Span>& spans);
/// The times of both, and the times of `a` outside `b`; all merged.
std::vector<Span> intersection(const std::vector<Span>& a, const std::vector<Span>& b);
std::vector<Span> difference(const std::vector<Span>& a, const std::vector<Span>& b);

inline double union_length(const std::vector<Span>& spans) {
  return length(merged(spans));
}
inline double intersection_length(const std::vector<Span>& a, const std::vector<Span>& b) {
  return length(intersection(merged(a), merged(b)));
}

/// One operation of a step on one rank, seconds.
struct Interval {
  double begin_s = 0, end_s = 0;  ///< a communication begins with the latest start of its group
  double entered_s = 0;           ///< when its lane started it; until begin_s it waits for peers (skew)
  double stalled_s = 0;  ///< its lane had nothing else to do but wait for an event of another lane before it
  WorkKind kind = WorkKind::compute;
  AxisSet axes{};  ///< of a communication: those along which its group has more than one rank
  int lane = 0;
  int issue = 0;        ///< place in Expansion::issues
  int late_rank = -1;   ///< of a communication: who started last, if it is another rank
  int waited_for = -1;  ///< issue whose end ended the stall
  Span span() const { return {begin_s, end_s}; }
  Span skew() const { return {entered_s, begin_s}; }
};

inline constexpr int kMixed = kAxes;  ///< several axes at once
/// Milliseconds. step = compute + comm - overlap + idle, exposed = comm - overlap = the sum of
/// exposed_by_axis.
struct Accounting {
  double step = 0, compute = 0, comm = 0, overlap = 0, exposed = 0, idle = 0;
  std::array<double, kAxes + 1> exposed_by_axis{};  ///< by Axis, then kMixed
  double stall = 0;  ///< time that lanes with GEMMs waited for events of other lanes
};

/// \param step_s length of the step on the host's clock, in which all intervals lie. What is neither
/// computation nor
///   communication is idle: the host's work before and after, copies from and to the host, skew
Accounting account(std::span<const Interval> intervals, double step_s);

}  // namespace octachoron
