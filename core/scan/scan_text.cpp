#include <algorithm>
#include <cstdio>

#include "core/base/text.h"
#include "core/scan/scan.h"

namespace octachoron {

namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char line[320];
  std::snprintf(line, sizeof line, pattern, values...);
  return line;
}

double share_of(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

std::string times_text(const Scan& scan) {
  std::string out =
      format("%6s %5s %7s %9s %8s %10s %8s %10s %9s %9s\n", scan.axis.c_str(), "ranks", "threads", "step ms",
             "noise", "tokens/s", "speed-up", "efficiency", "GFLOP/s", "waits");
  const Degree& first = scan.degrees.front();
  for (const Degree& degree : scan.degrees) {
    const double speed_up = first.step_ms() / degree.step_ms();
    out += format("%6d %5d %7d %9.2f %8.2f %10.0f %8.2f %9.0f%% %9.2f %8.0f%%\n", degree.degree,
                  degree.grid.size(), degree.cores.threads, degree.step_ms(), degree.noise_ms(),
                  1e3 * double(degree.tokens) / degree.step_ms(), speed_up,
                  100 * speed_up * first.grid.size() / degree.grid.size(), degree.gemm_flops_per_ms() / 1e6,
                  100 * degree.split.wait_share());
  }
  return out;
}

std::string split_text(const Scan& scan) {
  std::string out = format("%6s %9s %9s %9s %9s %9s %9s %9s %9s\n", scan.axis.c_str(), "GEMM ms", "other ms",
                           "comm ms", "overlap", "exposed", "skew ms", "host ms", "share");
  for (const Degree& degree : scan.degrees) {
    const StepSplit& split = degree.split;
    out += format("%6d %9.2f %9.2f %9.2f %8.0f%% %9.2f %9.2f %9.2f %8.0f%%\n", degree.degree, split.gemm_ms,
                  split.other_ms(), split.total.comm, 100 * split.overlap_ratio(), split.total.exposed,
                  split.skew_ms, split.host_ms(), share_of(split.total.exposed, degree.step_ms()));
  }
  return out;
}

std::string collectives_text(const Scan& scan) {
  std::string out = format("%6s  %-14s %-8s %7s %12s %9s %7s\n", scan.axis.c_str(), "collective", "axes",
                           "count", "bytes", "time ms", "hidden");
  for (const Degree& degree : scan.degrees) {
    if (degree.collectives.empty()) out += format("%6d  none\n", degree.degree);
    for (const CollectiveSum& row : degree.collectives)
      out +=
          format("%6d  %-14s %-8s %7.0f %12.0f %9.2f %6.0f%%\n", degree.degree, row.kind.c_str(),
                 row.axes.c_str(), row.count, row.bytes, row.time_ms, share_of(row.hidden_ms, row.time_ms));
  }
  return out;
}

std::string gemms_text(const Scan& scan) {
  std::size_t width = 7;
  for (const Degree& degree : scan.degrees)
    for (const GemmRow& row : degree.gemms) width = std::max(width, row.label.size());
  const int label = int(std::min<std::size_t>(width, 48));
  std::string out = format("%6s  %-*s %-13s %-18s %6s %9s %9s\n", scan.axis.c_str(), label, "product",
                           "formats", "m x n x k", "count", "time ms", "GFLOP/s");
  for (const Degree& degree : scan.degrees)
    for (const GemmRow& row : degree.gemms)
      out += format("%6d  %-*s %-13s %-18s %6lld %9.2f %9.2f\n", degree.degree, label,
                    row.label.substr(0, 48).c_str(), row.formats.c_str(),
                    text(row.m, " x ", row.n, " x ", row.k).c_str(), static_cast<long long>(row.count),
                    row.time_ms, row.time_ms > 0 ? row.flops() / row.time_ms / 1e6 : 0.0);
  return out;
}

std::string sharing_text(const Scan& scan) {
  std::string out;
  for (const Degree& degree : scan.degrees)
    if (degree.cores.shared())
      out += text("note: ", scan.axis, " = ", degree.degree, ": ", degree.cores.ranks_of_node, " ranks of ",
                  degree.cores.threads, degree.cores.threads == 1 ? " thread" : " threads", " share the ",
                  degree.cores.of_node,
                  " cores of a node: its times are no forecast for ranks with cores of their own\n");
  return out;
}

}  // namespace

std::string scan_text(const Scan& scan) {
  const std::size_t steps = scan.degrees.front().steps_ms.size();
  std::string out = text("scan of ", scan.axis, ": run '", scan.name, "' in ", scan.precision, ", ", steps,
                         " steps each in ", scan.rounds, scan.rounds == 1 ? " round" : " rounds",
                         " over all degrees; numbers are of the step with the median time, means over "
                         "ranks (GFLOP/s and products: rank 0)\n\n");
  out += times_text(scan) +
         "\nwhere the time of a step goes (step = GEMM + other + exposed + skew + host)\n" +
         split_text(scan) + "\ncommunication of a rank in a step\n" + collectives_text(scan) +
         "\nproducts of rank 0 in a step\n" + gemms_text(scan) + "\n" + sharing_text(scan);
  out += scan.verdict.answer + "\n";
  if (scan.verdict.reason != ScanReason::none)
    out += text("reason: ", name(scan.verdict.reason), " (", scan.verdict.why, ")\n");
  return out;
}

}  // namespace octachoron
