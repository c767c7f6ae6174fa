#include "core/compare/findings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/base/error.h"

namespace octachoron {

namespace {

// Bounds of contract 1.2: between two orders of summation.
struct Bounds {
  double loss, gradient, zero;
};
constexpr Bounds kSingle{1e-6, 5e-6, 1e-7}, kDouble{1e-12, 1e-11, 1e-14};

// Shares that are nothing special: a finding weighs as many times as it has more.
constexpr double kSaturatedShare = 1e-3, kFlushedShare = 0.1, kUnusedRange = 16;

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Half of the distance of two values, relative, next to a power of two.
double rounding_of(const CastObservation& cast) {
  return cast.format_max > 1000 ? 1.0 / 8 : 1.0 / 16;  // two or three bits of mantissa
}

// The operand among those of modules that begin with `prefix` whose cast lost most, measured by its format.
const CastObservation* worst_cast(const Observation& variant, const std::string& prefix, bool forward_only) {
  const CastObservation* worst = nullptr;
  const auto loss = [](const CastObservation& cast) { return cast.error / rounding_of(cast); };
  for (const CastObservation& cast : variant.steps.front().casts) {
    if (!cast.module.starts_with(prefix) || (forward_only && cast.operand == "grad_output")) continue;
    if (worst == nullptr || loss(cast) > loss(*worst)) worst = &cast;
  }
  return worst;
}

// How many times the usual; what alone deviates is far out of the ordinary.
double times(double value, double usual) {
  return usual > 0 ? value / usual : std::numeric_limits<double>::max();
}

// "layers.3.mlp.fc1.weight" -> "layers.3.mlp.fc1"
std::string module_of_tensor(const std::string& tensor) {
  return tensor.substr(0, tensor.rfind('.'));
}

void add_forward(const Observation& variant, const std::vector<ForwardError>& errors,
                 std::vector<Finding>& findings) {
  std::vector<double> added;
  for (const ForwardError& error : errors) added.push_back(error.added);
  const auto worst = std::max_element(errors.begin(), errors.end(),
                                      [](const auto& a, const auto& b) { return a.added < b.added; });
  if (worst == errors.end() || !(worst->added > 0)) return;
  const double usual = median_of(added);
  Finding finding{"forward", false, worst->point, "", times(worst->added, usual), ""};
  finding.evidence =
      text("the error of the residual stream grows most in ", worst->point, ": it adds ", worst->added,
           " to reach ", worst->relative, ", half of the others add less than ", usual);
  if (const CastObservation* cast = worst_cast(variant, worst->point, true)) {
    finding.module = cast->module, finding.operand = cast->operand;
    finding.evidence += text("; of its casts ", cast->tensor, " loses most: ", cast->error);
  }
  findings.push_back(std::move(finding));
}

void add_gradients(const Observation& variant, const std::vector<GradientError>& by_size,
                   std::vector<Finding>& findings) {
  std::vector<double> sizes;
  for (const GradientError& error : by_size) sizes.push_back(error.relative);
  // Where there is FP8, errors elsewhere come from it.
  const auto& casts = variant.steps.front().casts;
  const auto is_suspect = [&](const GradientError& error) {
    return casts.empty() || is_cast(variant, module_of_tensor(error.tensor));
  };
  const auto found = std::find_if(by_size.begin(), by_size.end(), is_suspect);
  if (found == by_size.end() || !(found->relative > 0)) return;
  const GradientError& worst = *found;
  const double usual = median_of(sizes);
  Finding finding{"gradient", false, module_of_tensor(worst.tensor), "", times(worst.relative, usual), ""};
  finding.evidence =
      text("the gradient of ", worst.tensor, " deviates most",
           casts.empty() ? ": " : " of those in FP8: ", worst.relative, ", half of them less than ", usual);
  if (const CastObservation* cast = worst_cast(variant, finding.module, false)) {
    finding.operand = cast->operand;
    finding.evidence += text("; of its casts ", cast->tensor, " loses most: ", cast->error);
  }
  findings.push_back(std::move(finding));
}

void add_cast(const CastObservation& cast, std::vector<Finding>& findings) {
  const double elements = double(std::max<std::int64_t>(1, cast.elements));
  const auto add = [&](const char* kind, double weight, const std::string& evidence) {
    if (weight >= 1) findings.push_back({kind, false, cast.module, cast.operand, weight, evidence});
  };
  const auto& seen = cast.recorded;
  const double saturated = double(seen.saturated) / elements, flushed = double(seen.flushed) / elements;
  add("nonfinite", seen.nonfinite > 0 ? 1e9 : 0,
      text(seen.nonfinite, " elements of ", cast.tensor, " are Inf or NaN"));
  add("saturation", saturated / kSaturatedShare,
      text(seen.saturated, " of ", cast.elements, " elements of ", cast.tensor, " saturate"));
  add("flush", flushed / kFlushedShare,
      text(seen.flushed, " of ", cast.elements, " elements of ", cast.tensor, " become zero"));
  const double asked = double(cast.format_max) * std::ldexp(1.0, -cast.margin);
  const double use = double(cast.amax_handed) * cast.scale / asked;
  if (!std::isfinite(use) || use <= 0) return;
  add("range", std::max(use / 2, 1 / (use * kUnusedRange)),
      text("the scale of ", cast.tensor, " is ", cast.scale, ", its amax of ", cast.amax_handed, " asks for ",
           asked / cast.amax_handed));
}

double relative(double value, double reference) {
  if (value == reference) return 0;
  return std::fabs(value - reference) / std::fabs(reference);
}

}  // namespace

bool is_cast(const Observation& seen, const std::string& module) {
  const auto& casts = seen.steps.front().casts;
  return std::any_of(casts.begin(), casts.end(),
                     [&](const CastObservation& cast) { return cast.module == module; });
}

std::vector<ForwardError> forward_errors(const Observation& variant, const Observation& reference) {
  std::vector<ForwardError> errors;
  ensure(variant.forward.size() == reference.forward.size(), "two residual streams of different lengths");
  double before = 0;
  for (std::size_t k = 0; k < variant.forward.size(); ++k) {
    const auto& [point, seen] = variant.forward[k];
    // Other sizes of micro-batches: the sequences that both have.
    Assembled a = seen, b = reference.forward[k].second;
    a.rows = b.rows = std::min(a.rows, b.rows);
    a.values.resize(std::size_t(a.rows * a.columns)), b.values.resize(a.values.size());
    const double error = relative_distance(a, b);
    errors.push_back({point, error, std::sqrt(std::max(0.0, error * error - before * before))});
    before = error;
  }
  return errors;
}

Gap gap(const Observation& variant, const Observation& reference) {
  Gap gap;
  for (std::size_t s = 0; s < std::min(variant.loss.size(), reference.loss.size()); ++s)
    gap.loss = std::max(gap.loss, relative(variant.loss[s], reference.loss[s]));
  gap.gradient = total_error(variant.gradients, reference.gradients);
  return gap;
}

Rounding judge_rounding(const Observation& variant, const Observation& reference, const KeyRows& keys) {
  const Bounds& bounds = variant.is_double && reference.is_double ? kDouble : kSingle;
  Rounding verdict;
  double excess = -1;
  const auto note = [&](const std::string& what, const std::string& quantity, double value, double bound) {
    if (value <= excess * bound) return;
    excess = value / bound;
    verdict.worst = text(what, ": ", quantity, " ", value, " of ", bound);
    if (excess > 1 || std::isnan(excess)) verdict.is_rounding = false, verdict.where = what;
  };
  note("loss", "relative", gap(variant, reference).loss, bounds.loss);
  for (const GradientError& error : gradient_errors(variant.gradients, reference.gradients, keys)) {
    note(error.tensor, "gradient", error.relative, bounds.gradient);
    note(error.tensor, "key rows", error.zero, bounds.zero);
  }
  for (const ForwardError& error : forward_errors(variant, reference)) {
    if (error.relative <= bounds.gradient) continue;
    verdict.is_rounding = false, verdict.where = error.point;
    verdict.worst = text(error.point, ": forward ", error.relative, " of ", bounds.gradient);
    break;  // all that follows inherits it
  }
  return verdict;
}

Deviations compare_observations(const Observation& variant, const Observation& reference,
                                const KeyRows& keys) {
  Deviations deviations;
  deviations.total = gap(variant, reference);
  deviations.forward = forward_errors(variant, reference);
  deviations.gradients = gradient_errors(variant.gradients, reference.gradients, keys);
  std::stable_sort(deviations.gradients.begin(), deviations.gradients.end(),
                   [](const auto& a, const auto& b) { return a.relative > b.relative; });
  std::vector<Finding> others;
  add_forward(variant, deviations.forward, others);
  add_gradients(variant, deviations.gradients, others);
  for (const CastObservation& cast : variant.steps.front().casts) add_cast(cast, others);
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return a.weight > b.weight; });
  deviations.findings = faults_of(variant);
  deviations.findings.insert(deviations.findings.end(), others.begin(), others.end());
  return deviations;
}

}  // namespace octachoron
