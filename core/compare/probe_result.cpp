// What the ranks saw in a step, put together.
#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/error.h"
#include "core/compare/probe.h"
#include "core/numerics/checksum.h"
#include "core/numerics/formats.h"

namespace octachoron {

namespace {

constexpr std::array<const char*, 3> kPasses = {"fprop", "dgrad", "wgrad"};

CheckpointTensor whole_or_part(const std::string& path, const TensorLayout& layout) {
  return {path, {path, layout}, {}, OCT_F32};
}

float largest(const Assembled& tensor) {
  double amax = 0;
  for (const double value : tensor.values) amax = std::max(amax, std::fabs(value));
  return float(amax);
}

WeightObservation compare_weight(const std::string& module, const Assembled& weight, const Assembled& master,
                                 DType type, float scale) {
  WeightObservation seen{module, std::int64_t(weight.values.size()), 0, 0};
  double difference = 0, square = 0;
  for (std::size_t i = 0; i < weight.values.size(); ++i) {
    seen.wrong += weight.values[i] != cast_of(master.values[i], type, scale);
    const double error = weight.values[i] / scale - master.values[i];
    difference += error * error, square += master.values[i] * master.values[i];
  }
  seen.error = square > 0 ? std::sqrt(difference / square) : 0;
  return seen;
}

}  // namespace

// Rank 0 speaks for scales and products; maxima and sums are over all ranks.
std::vector<StepProbe::Row> StepProbe::combined_rows(const World& world) const {
  std::vector<Row> all(rows_.size() * std::size_t(world.size())), rows = rows_;
  world.allgather(rows_.data(), all.data(), rows_.size() * sizeof(Row));
  for (std::size_t k = rows.size(); k < all.size(); ++k) {
    Row& row = rows[k % rows.size()];
    const Row& other = all[k];
    row.handed = std::max(row.handed, other.handed);
    row.looked_at += other.looked_at, row.wrong += other.wrong;
    row.difference += other.difference, row.square += other.square;
    if (row.cast_scale == 0) row.cast_scale = other.cast_scale;
    if (row.product < 0) row.product = other.product;
  }
  return rows;
}

std::vector<bool> StepProbe::rows_alike(const World& world) const {
  const PrecisionState& state = session_.precision();
  std::vector<std::uint64_t> mine, all(rows_.size() * std::size_t(world.size()));
  for (int row = 0; row < int(rows_.size()); ++row) {
    const float scale = state.scale(row);
    const auto history = state.history(row);
    const bool is_shared = state.plan().tensors[row].has_history();
    mine.push_back(
        is_shared ? checksum(1, history.data(), std::int64_t(history.size())) + checksum(0, &scale, 1) : 0);
  }
  world.allgather(mine.data(), all.data(), mine.size() * sizeof mine[0]);
  std::vector<bool> alike(rows_.size(), true);
  for (std::size_t k = 0; k < all.size(); ++k)
    if (all[k] != mine[k % mine.size()]) alike[k % mine.size()] = false;
  return alike;
}

bool StepProbe::rolled_once(int row, float amax) const {
  const std::vector<float>& before = histories_[row];
  const auto after = session_.precision().history(row);
  if (before.empty()) return true;
  if (!std::isfinite(amax)) return std::equal(before.begin(), before.end(), after.begin());
  return after.front() == amax && std::equal(before.begin(), before.end() - 1, after.begin() + 1);
}

CastObservation StepProbe::observation(int row, const Row& seen, bool own_rule) const {
  const QuantizedTensor& tensor = session_.precision().plan().tensors[row];
  CastObservation cast{.tensor = tensor.name};
  const std::size_t dot = tensor.name.rfind('.');
  cast.module = tensor.name.substr(0, dot), cast.operand = tensor.name.substr(dot + 1);
  cast.format = name(tensor.format()), cast.format_max = format_maximum(tensor.format());
  cast.margin = tensor.spec.margin, cast.is_weight = tensor.is_weight;
  cast.amax_handed = std::bit_cast<float>(seen.handed);
  cast.scale = seen.scale, cast.scale_cast = seen.cast_scale;
  if (tensor.has_history() && !own_rule) cast.scale_asked = scale_asked(tensor.spec, histories_[row]);
  if (seen.product >= 0) cast.product = tensor.name.substr(0, dot + 1) + kPasses[std::size_t(seen.product)];
  cast.looked_at = seen.looked_at, cast.wrong = seen.wrong;
  cast.error = seen.square > 0 ? std::sqrt(seen.difference / seen.square) : 0;
  return cast;
}

StepObservation StepProbe::step(const World& world, const Tensors& masters, bool own_rule) const {
  StepObservation step;
  const std::vector<Row> rows = combined_rows(world);
  const std::vector<bool> alike = rows_alike(world);
  const std::vector<PrecisionRecord> records = session_.precision_records();
  for (int row = 0; row < int(rows.size()); ++row) {
    CastObservation cast = observation(row, rows[row], own_rule);
    cast.recorded = records[row];
    cast.rolled_once = rolled_once(row, records[row].amax);
    cast.same_on_all_ranks = alike[row];
    if (cast.is_weight) cast.recorded.amax = histories_[row].front();
    step.casts.push_back(std::move(cast));
  }
  add_weights(world, masters, step);
  return step;
}

void StepProbe::add_weights(const World& world, const Tensors& masters, StepObservation& step) const {
  const ParameterSet& set = session_.programs().set;
  const Coordinate at = place(world);
  const bool speaks = at[int(Axis::dp)] == 0 && at[int(Axis::cp)] == 0;
  std::map<std::string, CheckpointTensor> parts;
  std::map<std::string, const Weight*> first;
  for (const auto& [key, weight] : weights_) {
    const ParameterTensor& tensor = set.tensors[weight.tensor];
    const std::string& name = tensor.logical.name;
    CheckpointTensor& part =
        parts.try_emplace(name, whole_or_part("/weight/" + name, tensor.logical.layout)).first->second;
    first.try_emplace(name, &weight);
    if (speaks)
      part.ranges.push_back({0, tensor.flat_begin, tensor.flat_begin + tensor.size,
                             const_cast<double*>(weight.values.data()), OCT_F64});
  }
  std::vector<CheckpointTensor> list;
  for (const auto& [name, part] : parts) list.push_back(part);
  const Tensors weights = assemble(list, "/weight/", world.comm(), Assembly::on_first_rank);
  if (world.rank() != 0) return;
  for (const auto& [name, weight] : weights) {
    const Weight& read = *first.at(name);
    const int row = set.tensors[read.tensor].row;
    const bool is_cast = size_of(read.type) == 1;
    const Assembled& master = masters.at(name);
    step.weights.push_back(compare_weight(read.module, weight, master, read.type,
                                          is_cast && row >= 0 ? rows_[row].scale : 1.0f));
    if (row < 0) continue;
    CastObservation& cast = step.casts[std::size_t(row)];
    cast.amax_handed = largest(master);
    if (is_cast) cast.error = step.weights.back().error;
  }
}

std::vector<std::pair<std::string, Assembled>> StepProbe::forward(const World& world) const {
  const ProcessGrid& grid = session_.grid();
  const Coordinate at = place(world);
  const int tp = at[int(Axis::tp)];
  const bool is_first = at[int(Axis::dp)] == 0 && at[int(Axis::cp)] == 0;
  std::vector<CheckpointTensor> list;
  for (const Stream& point : stream_) {
    const std::int64_t columns = hidden_, rows = std::int64_t(point.values.size()) / columns;
    const bool is_split = rows < tokens_;
    list.push_back(
        whole_or_part("/forward/" + point.name, is_split ? rows_split(tokens_, columns, grid[Axis::tp], tp)
                                                         : replicated(tokens_, columns, tp == 0)));
    if (is_first)
      list.back().ranges.push_back({0, 0, rows * columns, const_cast<double*>(point.values.data()), OCT_F64});
  }
  Tensors tensors = assemble(list, "/forward/", world.comm(), Assembly::on_first_rank);
  std::vector<std::pair<std::string, Assembled>> forward;
  for (const Stream& point : stream_) forward.emplace_back(point.name, std::move(tensors.at(point.name)));
  return forward;
}

}  // namespace octachoron
