// The comparison as text.
#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "core/base/text.h"
#include "core/compare/comparison.h"
#include "core/report/tables.h"

namespace octachoron {

namespace {

constexpr std::size_t kMostLines = 10;

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char line[400];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(line, sizeof line, pattern, arguments);
  va_end(arguments);
  return line;
}

std::string named(const Finding& finding) {
  return finding.module + (finding.operand.empty() ? "" : "." + finding.operand);
}

std::string loss_table(const Comparison& comparison) {
  std::string out = "loss by step\n" + format("  %6s  %14s", "step", comparison.reference.name.c_str());
  for (const VariantReport& variant : comparison.variants) out += format("  %14s", variant.seen.name.c_str());
  out += "\n";
  for (std::size_t s = 0; s < comparison.reference.loss.size(); ++s) {
    out += format("  %6zu  %14.8f", s + 1, comparison.reference.loss[s]);
    for (const VariantReport& variant : comparison.variants) out += format("  %14.8f", variant.seen.loss[s]);
    out += "\n";
  }
  return out;
}

std::string traffic_text(const Observation& seen) {
  if (seen.traffic.empty()) return "  no communication\n";
  std::string out;
  for (const auto& [kind, traffic] : seen.traffic)
    out += format("  %-44s %6lld calls %12s\n", kind.c_str(), static_cast<long long>(traffic.calls),
                  size_text(double(traffic.bytes)).c_str());
  return out;
}

// Layers have the same shapes: the first stands for all.
std::string shapes_text(const Observation& seen) {
  std::string out;
  for (const ShapeObservation& shape : seen.shapes) {
    out += shape.ranks.size() == 1
               ? text("  rank ", shape.ranks.front(), "\n")
               : text("  ", shape.ranks.size(), " ranks, from rank ", shape.ranks.front(), "\n");
    for (const std::string& gemm : shape.gemms)
      if (!gemm.starts_with("layers.") || gemm.starts_with("layers.0.")) out += "    " + gemm + "\n";
  }
  return out;
}

std::string casts_text(const Observation& seen) {
  if (seen.steps.front().casts.empty()) return "  none is cast to FP8\n";
  std::string out = format("  %-32s %5s %11s %11s %9s %10s %9s %9s\n", "tensor at step 1", "type", "amax",
                           "scale", "error", "saturated", "flushed", "nonfinite");
  for (const CastObservation& cast : seen.steps.front().casts)
    out += format("  %-32s %5s %11.4g %11.4g %9.2e %10llu %9llu %9llu\n", cast.tensor.c_str(),
                  cast.format.c_str(), double(cast.amax_handed), double(cast.scale), cast.error,
                  static_cast<unsigned long long>(cast.recorded.saturated),
                  static_cast<unsigned long long>(cast.recorded.flushed),
                  static_cast<unsigned long long>(cast.recorded.nonfinite));
  return out;
}

std::string observation_text(const Observation& seen) {
  std::string out = text("variant '", seen.name, "': ", to_string(seen.grid), "\n", seen.ranks,
                         "communication of rank 0 in a step\n", traffic_text(seen),
                         "products of a rank: m x n x k (layer 0 stands for all)\n", shapes_text(seen),
                         "tensors in FP8\n", casts_text(seen));
  for (const std::string& alarm : seen.alarms) out += "alarm: " + alarm + "\n";
  return out;
}

std::string deviations_text(const VariantReport& report, const std::string& reference) {
  const Deviations& deviations = report.deviations;
  std::string changed;
  for (const std::string& key : report.changed) changed += (changed.empty() ? "" : ", ") + key;
  std::string out = text("'", report.seen.name, "' against '", reference, "' (",
                         changed.empty() ? "no difference in parameters" : changed, ")\n");
  out += format("  loss: %.3e relative at most; gradients of step 1 together: %.3e\n", deviations.total.loss,
                deviations.total.gradient);
  out += "  residual stream at step 1: error, and what it grew by\n";
  for (const ForwardError& error : deviations.forward)
    out += format("    %-32s %10.3e %10.3e\n", error.point.c_str(), error.relative, error.added);
  out += text("  gradients at step 1, the largest errors of ", deviations.gradients.size(), "\n");
  for (std::size_t k = 0; k < std::min(kMostLines, deviations.gradients.size()); ++k) {
    const GradientError& error = deviations.gradients[k];
    const auto digest = std::find_if(report.seen.digests.begin(), report.seen.digests.end(),
                                     [&](const auto& each) { return each.first == error.tensor; });
    out += format("    %-32s %10.3e  digest %016llx\n", error.tensor.c_str(), error.relative,
                  static_cast<unsigned long long>(digest->second));
  }
  return out;
}

std::string findings_text(const std::vector<Finding>& findings) {
  if (findings.empty()) return "  nothing deviates: loss and gradients are equal\n";
  std::string out =
      text("  ", findings.front().fault ? "FAULT in " : "deviates most: ", named(findings.front()), "\n");
  for (std::size_t k = 0; k < std::min(kMostLines, findings.size()); ++k)
    out +=
        text("    ", findings[k].fault ? "fault, " : "", findings[k].kind, ": ", findings[k].evidence, "\n");
  if (findings.size() > kMostLines) out += text("    and ", findings.size() - kMostLines, " more\n");
  return out;
}

std::string rounding_text(const Rounding& rounding) {
  return rounding.is_rounding ? "rounding (the largest is " + rounding.worst + ")"
                              : "a FAULT, first in " + rounding.where + " (" + rounding.worst + ")";
}

std::string trial_text(const Trial& trial) {
  const std::string numbers = format("loss %.3e -> %.3e, gradients %.3e -> %.3e", trial.before.loss,
                                     trial.after.loss, trial.before.gradient, trial.after.gradient);
  if (trial.kind == Trial::Kind::full_precision)
    return text("  only the split over ranks differs; both again in full precision: ", numbers,
                "\n  in full precision the ", "deviation is ", rounding_text(trial.rounding), "\n");
  return text("  tested: again with precision.exclude = ", trial.module, ": ", numbers, "\n  the gap ",
              trial.closes ? "closes" : "does not close", "\n");
}

}  // namespace

std::string comparison_text(const Comparison& comparison) {
  std::string out = observation_text(comparison.reference);
  for (const VariantReport& variant : comparison.variants) out += text("\n", observation_text(variant.seen));
  out += text("\n", loss_table(comparison));
  const std::vector<Finding> own = faults_of(comparison.reference);
  if (!own.empty())
    out += text("\nthe reference '", comparison.reference.name, "' itself\n", findings_text(own));
  for (const VariantReport& variant : comparison.variants) {
    out += text("\n", deviations_text(variant, comparison.reference.name),
                findings_text(variant.deviations.findings));
    if (variant.rounding)
      out += text("  only the split over ranks differs: the deviation is ", rounding_text(*variant.rounding),
                  "\n");
    if (variant.trial) out += trial_text(*variant.trial);
    if (!variant.untested.empty()) out += text("  not tested: ", variant.untested, "\n");
  }
  return out;
}

}  // namespace octachoron
