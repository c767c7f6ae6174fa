#include "core/base/json.h"
#include "core/base/text.h"
#include "core/scan/scan.h"
#include "core/trace/collective_table.h"

namespace octachoron {

namespace {

template <class Rows, class Write>
std::string list(const Rows& rows, Write write) {
  std::string out;
  for (const auto& row : rows) out += text(out.empty() ? "" : ",", "\n", write(row));
  return "[" + out + "]";
}

std::string numbers(const std::vector<double>& values) {
  std::string out;
  for (const double value : values) out += text(out.empty() ? "" : ",", json_number(value));
  return out;
}

std::string gemm_json(const GemmRow& row) {
  return text("{\"product\":", json_text(row.label), ",\"formats\":", json_text(row.formats),
              ",\"m\":", row.m, ",\"n\":", row.n, ",\"k\":", row.k, ",\"count\":", row.count,
              ",\"time_ms\":", json_number(row.time_ms), ",\"flops\":", json_number(row.flops()), "}");
}

std::string collective_json(const CollectiveSum& row) {
  return text("{\"operation\":", json_text(row.kind), ",\"axes\":", json_text(row.axes),
              ",\"count\":", json_number(row.count), ",\"bytes\":", json_number(row.bytes),
              ",\"time_ms\":", json_number(row.time_ms), ",\"hidden_ms\":", json_number(row.hidden_ms), "}");
}

std::string grid_json(const ProcessGrid& grid) {
  return text("{\"dp\":", grid[Axis::dp], ",\"tp\":", grid[Axis::tp], ",\"pp\":", grid[Axis::pp],
              ",\"cp\":", grid[Axis::cp], "}");
}

std::string cores_json(const Cores& cores) {
  return text("{\"of_node\":", cores.of_node, ",\"ranks_of_node\":", cores.ranks_of_node,
              ",\"threads\":", cores.threads, ",\"shared\":", cores.shared() ? "true" : "false", "}");
}

std::string degree_json(const Degree& degree, const Degree& first) {
  const StepSplit& split = degree.split;
  const double speed_up = first.step_ms() / degree.step_ms();
  return text(
      "{\"degree\":", degree.degree, ",\"grid\":", grid_json(degree.grid), ",\"ranks\":", degree.grid.size(),
      ",\"cores\":", cores_json(degree.cores), ",\"step_ms\":", json_number(degree.step_ms()),
      ",\"noise_ms\":", json_number(degree.noise_ms()), ",\"steps_ms\":[", numbers(degree.steps_ms),
      "],\"tokens_per_s\":", json_number(1e3 * double(degree.tokens) / degree.step_ms()),
      ",\"speed_up\":", json_number(speed_up),
      ",\"efficiency\":", json_number(speed_up * first.grid.size() / degree.grid.size()),
      ",\"gemm_ms\":", json_number(split.gemm_ms), ",\"other_compute_ms\":", json_number(split.other_ms()),
      ",\"skew_ms\":", json_number(split.skew_ms), ",\"host_ms\":", json_number(split.host_ms()),
      ",\"overlap_ratio\":", json_number(split.overlap_ratio()),
      ",\"wait_share\":", json_number(split.wait_share()),
      ",\"gemm_flops\":", json_number(degree.gemm_flops()),
      ",\"gemm_gflops_per_s\":", json_number(degree.gemm_flops_per_ms() / 1e6),
      ",\"accounting\":", accounting_json(split.total),
      ",\"collectives\":", list(degree.collectives, collective_json),
      ",\"gemms\":", list(degree.gemms, gemm_json), "}");
}

std::string verdict_json(const Scan& scan) {
  const ScanVerdict& verdict = scan.verdict;
  std::string lost;
  for (int t = 0; t < kStepTerms; ++t)
    lost +=
        text(t > 0 ? "," : "", "\"", name(StepTerm(t)), "\":", json_number(verdict.lost_ms[std::size_t(t)]));
  return text("{\"degree\":", scan.degrees[verdict.best].degree,
              ",\"every_degree_pays\":", verdict.reason == ScanReason::none ? "true" : "false",
              ",\"next\":", verdict.next == verdict.best ? "null" : text(scan.degrees[verdict.next].degree),
              ",\"reason\":", json_text(name(verdict.reason)), ",\"answer\":", json_text(verdict.answer),
              ",\"why\":", json_text(verdict.why), ",\"lost_ms\":{", lost, "}}");
}

}  // namespace

std::string scan_json(const Scan& scan) {
  const Degree& first = scan.degrees.front();
  return text("{\"axis\":", json_text(scan.axis), ",\"run\":", json_text(scan.name),
              ",\"precision\":", json_text(scan.precision), ",\"rounds\":", scan.rounds,
              ",\"steps\":", first.steps_ms.size(), ",\"degrees\":",
              list(scan.degrees, [&](const Degree& degree) { return degree_json(degree, first); }),
              ",\n\"verdict\":", verdict_json(scan), "}\n");
}

}  // namespace octachoron
