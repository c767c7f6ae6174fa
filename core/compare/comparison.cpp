#include "core/compare/comparison.h"

#include <algorithm>

#include "core/compare/observe.h"
#include "core/parallel/first_ranks.h"

namespace octachoron {

namespace {

constexpr double kCloses = 0.5, kGrows = 1.1;  // of the gap before

bool closes(const Gap& before, const Gap& after) {
  const bool halved = after.gradient <= kCloses * before.gradient || after.loss <= kCloses * before.loss;
  return halved && after.gradient <= kGrows * before.gradient && after.loss <= kGrows * before.loss;
}

class Comparer {
 public:
  Comparer(const World& world, const std::vector<Variant>& variants, std::int64_t steps,
           const Observe& observe)
      : world_(world), variants_(variants), steps_(steps), observe_(observe) {}

  Comparison run() {
    Comparison comparison;
    comparison.steps = steps_;
    comparison.reference = observe_(variants_.front(), steps_);
    for (std::size_t v = 1; v < variants_.size(); ++v)
      comparison.variants.push_back(compare(variants_[v], comparison.reference));
    return comparison;
  }

 private:
  // What rank 0 finds decides what all run next.
  VariantReport compare(const Variant& variant, const Observation& reference) {
    VariantReport report;
    const Parameters& first = variants_.front().parameters;
    report.changed = changed_keys(first, variant.parameters);
    report.seen = observe_(variant, steps_);
    const KeyRows keys = zero_gradient_rows(variant.parameters.model);
    std::string order;
    if (world_.rank() == 0) {
      report.deviations = compare_observations(report.seen, reference, keys);
      const bool is_split = !report.changed.empty() && is_split_only(report.changed);
      order = is_split ? judge_split(report, reference, keys) : suspect(report);
    }
    order = world_.broadcast(order, 0);
    if (order == kFullPrecision) {
      report.trial = in_full_precision(variant, keys);
      report.trial->before = report.deviations.total;
    } else if (!order.empty()) {
      report.trial = without(variant, order, reference, report.deviations.total);
    }
    return report;
  }

  std::string judge_split(VariantReport& report, const Observation& reference, const KeyRows& keys) const {
    if (!report.seen.is_full_precision || !reference.is_full_precision) return kFullPrecision;
    report.rounding = judge_rounding(report.seen, reference, keys);
    return "";
  }

  std::string suspect(VariantReport& report) const {
    const auto& findings = report.deviations.findings;
    if (findings.empty()) return "";
    const std::string& module = findings.front().module;
    if (is_cast(report.seen, module)) return module;
    report.untested = "it is not in FP8 in this variant, so nothing can be taken out of FP8";
    return "";
  }

  Trial without(const Variant& variant, const std::string& module, const Observation& reference,
                const Gap& before) const {
    Variant changed = variant;
    changed.parameters.precision.exclude.push_back(module);
    const Observation seen = observe_(changed, steps_);
    Trial trial{.kind = Trial::Kind::exclude, .module = module, .before = before};
    if (world_.rank() != 0) return trial;
    trial.after = gap(seen, reference);
    trial.closes = closes(before, trial.after);
    return trial;
  }

  // A difference that shrinks with the precision is rounding, one that does not is a fault.
  Trial in_full_precision(const Variant& variant, const KeyRows& keys) {
    const auto full = [&](Variant of) {
      of.parameters.backend.precision = BackendParameters().precision;
      of.parameters.precision = {};
      of.parameters.plugin = {};
      return observe_(of, steps_);
    };
    const Observation reference = full(variants_.front()), seen = full(variant);
    Trial trial{.kind = Trial::Kind::full_precision};
    if (world_.rank() != 0) return trial;
    trial.rounding = judge_rounding(seen, reference, keys);
    trial.after = gap(seen, reference);
    trial.closes = trial.rounding.is_rounding;
    return trial;
  }

  static constexpr const char* kFullPrecision = "in full precision";  // no module has a blank in its name

  const World& world_;
  const std::vector<Variant>& variants_;
  std::int64_t steps_;
  const Observe& observe_;
};

}  // namespace

Comparison compare_variants(const World& world, const std::vector<Variant>& variants, std::int64_t steps,
                            const Observe& observe) {
  return Comparer(world, variants, steps, observe).run();
}

Observe observe_on(const World& world) {
  return [&world](const Variant& variant, std::int64_t steps) {
    Observation seen;
    on_first_ranks(world, grid_of(variant.parameters).size(),
                   [&](const World& part) { seen = observe_variant(variant, part, steps); });
    return seen;
  };
}

}  // namespace octachoron
