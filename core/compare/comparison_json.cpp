// The comparison as one JSON object: everything that the text has, and what it leaves out.
#include <cstdio>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/compare/comparison.h"

namespace octachoron {

namespace {

/// Values of one object or array, which is closed when it is read.
class Json {
 public:
  Json& add(const char* key, const std::string& raw) {
    out_ += text(out_.empty() ? "" : ",", "\"", key, "\":", raw);
    return *this;
  }
  Json& add(const char* key, double value) { return add(key, json_number(value)); }
  Json& add(const char* key, bool value) { return add(key, std::string(value ? "true" : "false")); }
  Json& count(const char* key, std::uint64_t value) { return add(key, text(value)); }
  Json& name(const char* key, const std::string& value) { return add(key, json_text(value)); }
  std::string object() const { return text("{", out_, "}"); }

 private:
  std::string out_;
};

template <class List, class Each>
std::string array(const List& list, Each each) {
  std::string out;
  for (const auto& item : list) out += text(out.empty() ? "" : ",", each(item));
  return text("[", out, "]");
}

std::string numbers(const std::vector<double>& values) {
  return array(values, json_number);
}

std::string cast_json(const CastObservation& cast) {
  Json json;
  json.name("tensor", cast.tensor)
      .name("module", cast.module)
      .name("operand", cast.operand)
      .name("format", cast.format);
  json.count("elements", std::uint64_t(cast.elements)).add("amax", double(cast.amax_handed));
  json.add("amax_recorded", double(cast.recorded.amax)).add("scale", double(cast.scale));
  json.add("error", cast.error)
      .count("saturated", cast.recorded.saturated)
      .count("flushed", cast.recorded.flushed);
  return json.count("nonfinite", cast.recorded.nonfinite).object();
}

std::string weight_json(const WeightObservation& weight) {
  Json json;
  json.name("module", weight.module).count("elements", std::uint64_t(weight.elements));
  return json.count("wrong", std::uint64_t(weight.wrong)).add("error", weight.error).object();
}

std::string step_json(const StepObservation& step) {
  Json json;
  json.count("step", std::uint64_t(step.step)).add("tensors", array(step.casts, cast_json));
  return json.add("weights", array(step.weights, weight_json)).object();
}

std::string digest_json(const std::pair<std::string, std::uint64_t>& digest) {
  char hex[20];
  std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(digest.second));
  return Json().name("tensor", digest.first).name("digest", hex).object();
}

std::string observation_json(const Observation& seen) {
  Json json, grid, traffic;
  for (const Axis axis : {Axis::dp, Axis::tp, Axis::pp, Axis::cp})
    grid.count(name(axis), std::uint64_t(seen.grid[axis]));
  for (const auto& [kind, of] : seen.traffic)
    traffic.add(
        kind.c_str(),
        Json().count("calls", std::uint64_t(of.calls)).count("bytes", std::uint64_t(of.bytes)).object());
  json.name("name", seen.name).add("grid", grid.object()).name("rank_map", seen.ranks);
  json.add("loss", numbers(seen.loss)).add("grad_norm", numbers(seen.grad_norm));
  json.add("gradient_digests", array(seen.digests, digest_json)).add("steps", array(seen.steps, step_json));
  json.add("collectives_of_rank_0", traffic.object());
  json.add("shapes", array(seen.shapes, [](const ShapeObservation& shape) {
             return Json()
                 .add("ranks", array(shape.ranks, [](int rank) { return text(rank); }))
                 .add("gemms", array(shape.gemms, json_text))
                 .object();
           }));
  json.add("precision", array(seen.precision, [](const PrecisionRow& row) {
             return Json()
                 .name("module", row.module)
                 .name("pass", row.pass)
                 .name("format", row.format)
                 .name("reason", row.reason)
                 .object();
           }));
  return json.add("alarms", array(seen.alarms, json_text)).object();
}

std::string gap_json(const Gap& gap) {
  return Json().add("loss", gap.loss).add("gradient", gap.gradient).object();
}

std::string finding_json(const Finding& finding) {
  Json json;
  json.name("kind", finding.kind).add("fault", finding.fault).name("module", finding.module);
  return json.name("operand", finding.operand)
      .add("weight", finding.weight)
      .name("evidence", finding.evidence)
      .object();
}

std::string rounding_json(const Rounding& rounding) {
  Json json;
  json.add("is_rounding", rounding.is_rounding).name("worst", rounding.worst);
  return json.name("where", rounding.where).object();
}

std::string trial_json(const Trial& trial) {
  const bool excluded = trial.kind == Trial::Kind::exclude;
  Json json;
  json.name("kind", excluded ? "exclude" : "full precision").add("before", gap_json(trial.before));
  json.add("after", gap_json(trial.after)).add("closes", trial.closes);
  return (excluded ? json.name("module", trial.module) : json.add("rounding", rounding_json(trial.rounding)))
      .object();
}

std::string variant_json(const VariantReport& report) {
  Json json;
  json.add("variant", observation_json(report.seen)).add("changed", array(report.changed, json_text));
  json.add("gap", gap_json(report.deviations.total));
  json.add("forward", array(report.deviations.forward, [](const ForwardError& error) {
             return Json()
                 .name("point", error.point)
                 .add("error", error.relative)
                 .add("added", error.added)
                 .object();
           }));
  json.add("gradients", array(report.deviations.gradients, [](const GradientError& error) {
             return Json()
                 .name("tensor", error.tensor)
                 .add("error", error.relative)
                 .add("zero_rows", error.zero)
                 .object();
           }));
  json.add("findings", array(report.deviations.findings, finding_json));
  json.add("rounding", report.rounding ? rounding_json(*report.rounding) : "null");
  return json.add("trial", report.trial ? trial_json(*report.trial) : "null")
      .name("untested", report.untested)
      .object();
}

}  // namespace

std::string comparison_json(const Comparison& comparison) {
  Json json;
  json.count("steps", std::uint64_t(comparison.steps))
      .add("reference", observation_json(comparison.reference));
  json.add("reference_faults", array(faults_of(comparison.reference), finding_json));
  return json.add("variants", array(comparison.variants, variant_json)).object() + "\n";
}

}  // namespace octachoron
