#include "core/train/health.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/numerics/formats.h"

namespace octachoron {

namespace {

constexpr std::size_t kFew = 8;                       // steps before a trend is one
constexpr double kSaturated = 1e-4;                   // share of elements from which a rise matters
constexpr double kFlushed = 0.1;                      // share of elements
constexpr double kOff = 2;                            // a scale this far from what the amax asks for
constexpr double kSpikeNoise = 6, kSpikeShare = 0.1;  // above the median: mean deviations, share of it

using Window = std::span<const HealthSample>;

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", share * 100);
  return text;
}

std::string module_of(const std::string& tensor) {
  return tensor.substr(0, tensor.rfind('.'));
}

// Mean share of the elements of tensor t over steps.
double share(const HealthTensor& tensor, std::size_t t, Window steps, std::uint64_t PrecisionRecord::*count) {
  double sum = 0;
  for (const HealthSample& sample : steps) sum += double(sample.records[t].*count);
  return sum / (double(steps.size()) * double(std::max<std::int64_t>(1, tensor.elements)));
}

std::string other_scaling(const HealthTensor& tensor) {
  const std::string margin = text("set precision.margin = ", tensor.margin + 1);
  return tensor.history > 0 ? margin + ", or choose a recipe of current scaling" : margin;
}

void saturation(const HealthTensor& tensor, std::size_t t, Window window, std::vector<Alarm>& alarms) {
  if (window.size() < kFew) return;
  const std::size_t half = window.size() / 2;
  const double before = share(tensor, t, window.first(half), &PrecisionRecord::saturated);
  const double now = share(tensor, t, window.last(half), &PrecisionRecord::saturated);
  if (now < kSaturated || now < 2 * before) return;
  alarms.push_back({"saturation", tensor.name,
                    text("'", tensor.name, "' saturates more and more (", percent(before), ", then ",
                         percent(now), " of its elements over steps ", window.front().step, " to ",
                         window.back().step, "); ", other_scaling(tensor))});
}

void flush(const HealthTensor& tensor, std::size_t t, Window window, std::vector<Alarm>& alarms) {
  if (window.size() < kFew) return;
  const double now = share(tensor, t, window.last(kFew), &PrecisionRecord::flushed);
  if (now < kFlushed) return;
  alarms.push_back(
      {"flush", tensor.name,
       text("'", tensor.name, "' loses small values to zero (", percent(now), " of its elements in the last ",
            kFew, " steps); ", tensor.margin > 0 ? "lower precision.margin, or " : "",
            "keep it out of FP8 with precision.exclude = ", module_of(tensor.name))});
}

// A window of maxima may hold one scale for as long as it is long; longer, nothing makes it.
void frozen(const HealthTensor& tensor, std::size_t t, Window window, std::vector<Alarm>& alarms) {
  const std::size_t least = tensor.frozen ? kFew : std::max(kFew, std::size_t(tensor.history) + 2);
  if (tensor.history == 0 || window.size() < least) return;
  const Window steps = window.last(least);
  const float scale = steps.back().scales[t];
  const auto moved = [&](const HealthSample& sample) { return sample.scales[t] != scale; };
  if (std::any_of(steps.begin(), steps.end(), moved)) return;
  const double asked = double(tensor.format_max) * std::ldexp(1.0, -tensor.margin);
  double least_use = INFINITY, most_use = 0;
  for (const HealthSample& sample : steps.last(kFew / 2)) {
    const double use = double(sample.records[t].amax) * scale / asked;
    if (!std::isfinite(use) || use <= 0) return;
    least_use = std::min(least_use, use), most_use = std::max(most_use, use);
  }
  if (least_use < kOff && most_use > 1 / kOff) return;
  alarms.push_back({"frozen scale", tensor.name,
                    text("the scale of '", tensor.name, "' stands still while its amax moves (", scale,
                         " for ", least, " steps, the amax of ", steps.back().records[t].amax, " asks for ",
                         asked / steps.back().records[t].amax, "); ",
                         tensor.frozen ? "set precision.amax_algorithm = max"
                                       : "choose another recipe: this one does not follow")});
}

void empty_history(const HealthTensor& tensor, std::size_t t, Window window, std::vector<Alarm>& alarms) {
  if (tensor.history == 0 || tensor.is_weight || window.size() < kFew) return;
  const Window steps = window.last(kFew);
  if (std::any_of(steps.begin(), steps.end(),
                  [&](const HealthSample& sample) { return bool(sample.known[t]); }))
    return;
  alarms.push_back(
      {"empty history", tensor.name,
       text("the amax history of '", tensor.name, "' is still empty (its amax was never positive in ", kFew,
            " steps); look at what ", module_of(tensor.name),
            " gets, or keep it out of FP8 with precision.exclude = ", module_of(tensor.name))});
}

void nonfinite(const HealthTensor& tensor, std::size_t t, Window window, std::vector<Alarm>& alarms) {
  const PrecisionRecord& record = window.back().records[t];
  if (record.nonfinite == 0) return;
  alarms.push_back(
      {"nonfinite", tensor.name,
       text("'", tensor.name, "' was not finite at step ", window.back().step, " (", record.nonfinite,
            " of its ", tensor.elements, " elements are Inf or NaN); find the origin with train --check, or ",
            "lower optimizer.learning_rate")});
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void loss_spike(Window window, std::vector<Alarm>& alarms) {
  std::vector<double> before;
  for (const HealthSample& sample : window.first(window.size() - 1))
    if (std::isfinite(sample.loss)) before.push_back(sample.loss);
  const double loss = window.back().loss;
  if (before.size() < kFew || !std::isfinite(loss)) return;
  const double usual = median(before);
  double noise = 0;
  for (const double value : before) noise += std::fabs(value - usual) / double(before.size());
  if (loss < usual + std::max(kSpikeNoise * noise, kSpikeShare * std::fabs(usual))) return;
  alarms.push_back(
      {"loss", "",
       text("the loss jumps at step ", window.back().step, " (", loss, ", in the ", before.size(),
            " steps before about ", usual, "); lower optimizer.learning_rate or optimizer.clip, or look at ",
            "the data of that step")});
}

std::string name_some(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t k = 0; k < std::min<std::size_t>(3, names.size()); ++k) list += (k ? ", " : "") + names[k];
  return names.size() > 3 ? text(list, " and ", names.size() - 3, " more") : list;
}

}  // namespace

std::vector<Alarm> health_alarms(std::span<const HealthTensor> tensors,
                                 std::span<const HealthSample> window) {
  std::vector<Alarm> alarms;
  if (window.empty()) return alarms;
  loss_spike(window, alarms);
  for (std::size_t t = 0; t < tensors.size(); ++t)
    for (const auto look : {nonfinite, saturation, flush, frozen, empty_history})
      look(tensors[t], t, window, alarms);
  return alarms;
}

std::vector<std::string> worst_tensors(std::span<const HealthTensor> tensors, const HealthSample& sample,
                                       std::size_t most) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const PrecisionRecord& seen = sample.records[t];
    const double worst = double(seen.nonfinite) * 1e6 + double(seen.saturated + seen.flushed);
    if (worst > 0) order.push_back({-worst / double(std::max<std::int64_t>(1, tensors[t].elements)), t});
  }
  std::sort(order.begin(), order.end());
  std::vector<std::string> lines;
  for (const auto& [worst, t] : order) {
    if (lines.size() == most) break;
    const PrecisionRecord& seen = sample.records[t];
    lines.push_back(text(tensors[t].name, ": saturated ", seen.saturated, "  flushed ", seen.flushed,
                         "  nonfinite ", seen.nonfinite, "  of ", tensors[t].elements));
  }
  return lines;
}

std::vector<HealthTensor> health_tensors(const RankPrograms& programs, const ProcessGrid& grid) {
  std::vector<HealthTensor> tensors;
  std::map<std::string, std::size_t> place;
  for (const QuantizedTensor& tensor : programs.quantization.tensors) {
    const oct_quant_spec& spec = tensor.spec;
    place[tensor.name] = tensors.size();
    tensors.push_back({tensor.name, 0, format_maximum(tensor.format()), spec.margin,
                       tensor.has_history() ? spec.history : 0, spec.amax_algorithm == OCT_AMAX_FROZEN,
                       tensor.is_weight});
  }
  const StepProgram& program = programs.training.program;
  const int parts = grid.group_size(Axis::tp | Axis::cp | Axis::dp);
  for (const Call& call : program.schedule.calls)
    for (const Operation& operation : program.segments[call.segment].operations) {
      const auto cast = find_cast(operation);
      const auto found = cast ? place.find(*cast->tensor) : place.end();
      if (found == place.end() || tensors[found->second].is_weight) continue;
      const int copies = programs.quantization.tensors[found->second].copies;
      tensors[found->second].elements += cast->row.elements() * parts / copies;
    }
  for (const ParameterTensor& tensor : programs.set.tensors)
    if (tensor.quantized() && tensor.flat_begin == 0)
      tensors[std::size_t(tensor.row)].elements = tensor.logical.layout.global_size();
  return tensors;
}

HealthWatch::HealthWatch(const TrainingSession& session)
    : session_(session), tensors_(health_tensors(session.programs(), session.grid())) {
  for (const HealthTensor& tensor : tensors_)
    window_size_ = std::max(window_size_, std::size_t(tensor.history) + 2);
}

HealthSample HealthWatch::sample(std::int64_t step, double loss) const {
  const PrecisionState& state = session_.precision();
  HealthSample sample{step, loss, session_.precision_records(), {}, {}};
  for (int row = 0; row < int(tensors_.size()); ++row) {
    const auto history = state.history(row);
    sample.scales.push_back(state.scale(row));
    sample.known.push_back(std::any_of(history.begin(), history.end(), [](float amax) { return amax > 0; }));
  }
  return sample;
}

std::vector<std::string> HealthWatch::note(std::int64_t step, double loss) {
  if (window_.size() == window_size_) window_.erase(window_.begin());
  window_.push_back(sample(step, loss));
  std::vector<std::string> lines;
  for (const Alarm& alarm : health_alarms(tensors_, window_)) {
    const auto raised = raised_.find(alarm.kind + alarm.tensor);
    if (raised != raised_.end() && step - raised->second < std::int64_t(window_size_)) continue;
    raised_[alarm.kind + alarm.tensor] = step;
    lines.push_back(alarm.text);
  }
  const std::vector<std::string> unknown =
      given_up_reported_ ? std::vector<std::string>{} : session_.given_up();
  if (!unknown.empty())
    lines.push_back(
        text("calibration has found no scale (the amax of ", name_some(unknown),
             " is zero or not finite); nothing is to be done where they may be zero, else look at the data ",
             "and at model.init_std"));
  given_up_reported_ |= !unknown.empty();
  return lines;
}

std::vector<std::string> HealthWatch::worst(std::size_t most) const {
  return window_.empty() ? std::vector<std::string>{} : worst_tensors(tensors_, window_.back(), most);
}

}  // namespace octachoron
