#include "core/train/precision_state.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/error.h"
#include "core/checkpoint/load.h"
#include "core/model/parameter_buffers.h"
#include "core/numerics/formats.h"
#include "core/parallel/together.h"

namespace octachoron {

namespace {

const std::string kAmax = "/precision/amax/", kScale = "/precision/scale/", kCalibrations = "/precision/calibrations";

bool positive(float amax) {
  return amax > 0 && std::isfinite(amax);
}

template <class T>
std::uint32_t largest_bits(const T* data, std::int64_t count) {
  std::uint32_t bits = 0;
  for (std::int64_t i = 0; i < count; ++i)
    bits = std::max(bits, std::bit_cast<std::uint32_t>(std::fabs(float(data[i]))));
  return bits;
}

CheckpointTensor table(const std::string& path, float* data, std::int64_t length, bool owner) {
  CheckpointTensor tensor{path, {path, as_vector(replicated(length, 1, owner))}, {}, OCT_F32};
  tensor.ranges.push_back({0, 0, length, data, OCT_F32});
  return tensor;
}

}  // namespace

PrecisionRecord total(const std::vector<PrecisionRecord>& records) {
  PrecisionRecord sum;
  for (const PrecisionRecord& record : records) {
    if (std::isfinite(record.amax)) sum.amax = std::max(sum.amax, record.amax);
    sum.saturated += record.saturated, sum.flushed += record.flushed, sum.nonfinite += record.nonfinite;
  }
  return sum;
}

PrecisionState::PrecisionState(const RankPrograms& programs, const Executor& training)
    : programs_(programs), training_(training), tables_(training) {
  if (empty()) return;
  const StepProgram& program = training.program();
  const auto table = [&](const char* name) {  // operations see rows of it only
    const int buffer = program.find_buffer(name);
    ensure(buffer >= 0, "the program has no buffer '", name, "'");
    const std::int64_t rows = std::int64_t(plan().tensors.size());
    const std::int64_t columns = program.buffers[buffer].bytes / (rows * size_of(OCT_F32));
    return View{buffer, 0, OCT_F32, rows, columns, columns};
  };
  scale_ = table(PrecisionBuffers::scale);
  history_ = table(PrecisionBuffers::history);
  scales_ = reinterpret_cast<float*>(tables_.at(scale_));
  histories_ = reinterpret_cast<float*>(tables_.at(history_));
}

std::span<const float> PrecisionState::history(int row) const {
  const QuantizedTensor& tensor = plan().tensors[row];
  return {history_at(row), tensor.has_history() ? std::size_t(tensor.spec.history) : 0};
}

void PrecisionState::reset() {
  for (int row = 0; row < int(plan().tensors.size()); ++row) {
    std::fill_n(scale_at(row), scale_.columns, 1.0f);
    std::fill_n(history_at(row), history_.columns, 0.0f);
  }
  calibrations_ = 0;
  tables_.push();
}

void PrecisionState::make_scale(int row) {
  const oct_quant_spec& spec = plan().tensors[row].spec;
  const std::span<const float> entries = history(row);
  float amax = 0;
  for (const float entry : entries) {
    if (positive(entry)) amax = std::max(amax, entry);
    if (positive(amax) && spec.amax_algorithm != OCT_AMAX_MAX) break;  // the newest
  }
  if (positive(amax)) *scale_at(row) = scale_of(amax, format_maximum(DType(spec.format)), spec.margin);
}

void PrecisionState::note_weights(const World& world, const ProcessGrid& grid,
                                  const std::function<const std::byte*(const View&)>& masters) {
  if (empty()) return;
  const ParameterSet& set = programs_.set;
  std::vector<std::uint32_t> mine(plan().tensors.size(), 0), all(mine.size() * std::size_t(world.size()));
  const std::byte* begin = nullptr;
  int bucket = -1;  // whose masters those are
  for (const ShardRange& range : shard_ranges(set, grid.place_in_group(world.rank(), Axis::dp | Axis::cp))) {
    const int row = set.tensors[range.tensor].row;
    if (row < 0) continue;
    const View view = training_.find(ParameterBuffers::master_name(range.bucket)).value();
    if (view.buffer != bucket) begin = masters(view), bucket = view.buffer;
    const std::byte* data = begin + range.shard_offset * size_of(view.dtype);
    const std::int64_t count = range.flat_end - range.flat_begin;
    mine[row] = std::max(mine[row], view.dtype == OCT_F64
                                        ? largest_bits(reinterpret_cast<const double*>(data), count)
                                        : largest_bits(reinterpret_cast<const float*>(data), count));
  }
  world.allgather(mine.data(), all.data(), mine.size() * sizeof mine[0]);
  for (std::size_t row = 0; row < mine.size(); ++row) {
    const auto known = history(int(row));
    if (!plan().tensors[row].is_weight || std::any_of(known.begin(), known.end(), positive)) continue;
    std::uint32_t bits = 0;
    for (std::size_t k = row; k < all.size(); k += mine.size()) bits = std::max(bits, all[k]);
    const float amax = std::bit_cast<float>(bits);
    if (std::isfinite(amax)) *history_at(int(row)) = amax;
    make_scale(int(row));
  }
  tables_.push();
}

std::vector<std::string> PrecisionState::unknown() const {
  std::vector<std::string> names;
  for (int row = 0; row < int(plan().tensors.size()); ++row) {
    const QuantizedTensor& tensor = plan().tensors[row];
    if (!tensor.has_history() || tensor.is_weight) continue;
    const auto known = history(row);
    if (std::none_of(known.begin(), known.end(), positive)) names.push_back(tensor.name);
  }
  return names;
}

std::vector<PrecisionRecord> PrecisionState::records(const Executor& executor) const {
  std::vector<PrecisionRecord> records(plan().tensors.size());
  if (empty()) return records;
  const auto* amax = reinterpret_cast<const float*>(executor.address(executor.find(PrecisionBuffers::amax).value()));
  const auto* counts =
      reinterpret_cast<const std::uint64_t*>(executor.address(executor.find(PrecisionBuffers::counters).value()));
  for (std::size_t row = 0; row < records.size(); ++row) records[row].amax = amax[row];
  for (const CounterRow& row : plan().counters) {
    const auto copies = std::uint64_t(row.copies);
    PrecisionRecord& record = records[row.tensor];
    record.saturated += counts[0] / copies, record.flushed += counts[1] / copies, record.nonfinite += counts[2] / copies;
    counts += 3;
  }
  return records;
}

void PrecisionState::apply(const Recipe& recipe, std::int64_t step) {
  if (!recipe.has_update()) return;
  for (int row = 0; row < int(plan().tensors.size()); ++row) {
    const QuantizedTensor& tensor = plan().tensors[row];
    if (!tensor.has_history()) continue;
    *scale_at(row) = recipe.update(step, history(row), format_maximum(tensor.format()), *scale_at(row));
  }
  tables_.push();
}

std::vector<float> PrecisionState::copy() const {
  std::vector<float> all;
  if (empty()) return all;
  all.assign(scale_at(0), scale_at(0) + scale_.elements());
  all.insert(all.end(), history_at(0), history_at(0) + history_.elements());
  return all;
}

void PrecisionState::restore(const std::vector<float>& copied) {
  if (empty()) return;
  std::copy_n(copied.begin(), scale_.elements(), scale_at(0));
  std::copy_n(copied.begin() + scale_.elements(), history_.elements(), history_at(0));
  tables_.push();
}

std::vector<CheckpointTensor> PrecisionState::tensors(bool owner) {
  std::vector<CheckpointTensor> list;
  for (int row = 0; row < int(plan().tensors.size()); ++row) {
    const QuantizedTensor& tensor = plan().tensors[row];
    if (!tensor.has_history()) continue;
    list.push_back(table(kAmax + tensor.name, history_at(row), tensor.spec.history, owner));
    list.push_back(table(kScale + tensor.name, scale_at(row), 1, owner));
  }
  if (plan().needs_calibration()) list.push_back(table(kCalibrations, &calibrations_, 1, owner));
  return list;
}

std::vector<std::string> PrecisionState::load(const World& world, const std::string& path, bool same_rule) {
  struct Stored {
    int row;
    std::vector<float> history, scale;
  };
  const bool owner = world.rank() == 0;
  std::vector<Stored> found;
  std::int64_t in_file = 0;
  bool counted = false;
  together(world, [&] {
    const CheckpointFile file(path);
    for (const StoredTensor& tensor : file.tensors()) in_file += tensor.path.starts_with(kAmax);
    counted = same_rule && plan().needs_calibration() && file.find(kCalibrations) != nullptr;
    for (int row = 0; row < int(plan().tensors.size()); ++row) {
      const QuantizedTensor& tensor = plan().tensors[row];
      const StoredTensor* history = file.find(kAmax + tensor.name);
      if (!tensor.has_history() || history == nullptr || file.find(kScale + tensor.name) == nullptr) continue;
      found.push_back({row, std::vector<float>(std::size_t(history->layout.global_size())), std::vector<float>(1)});
    }
    return true;
  });
  std::vector<CheckpointTensor> wanted;
  for (Stored& stored : found) {
    const std::string& name = plan().tensors[stored.row].name;
    wanted.push_back(table(kAmax + name, stored.history.data(), std::int64_t(stored.history.size()), owner));
    wanted.push_back(table(kScale + name, stored.scale.data(), 1, owner));
  }
  if (counted) wanted.push_back(table(kCalibrations, &calibrations_, 1, owner));
  load_checkpoint(world.comm(), path, wanted);
  for (const Stored& stored : found) {
    const std::size_t steps = std::min(stored.history.size(), history(stored.row).size());
    std::copy_n(stored.history.begin(), steps, history_at(stored.row));
    *scale_at(stored.row) = stored.scale[0];
    if (!same_rule) make_scale(stored.row);
  }
  tables_.push();
  std::vector<std::string> lines;
  std::int64_t wanted_rows = 0;
  for (const QuantizedTensor& tensor : plan().tensors) wanted_rows += tensor.has_history();
  if (const std::int64_t fresh = wanted_rows - std::int64_t(found.size()); fresh > 0)
    lines.push_back(text("amax histories of ", fresh, " tensors are not in the checkpoint and begin anew"));
  if (const std::int64_t ignored = in_file - std::int64_t(found.size()); ignored > 0)
    lines.push_back(text("amax histories of ", ignored, " tensors in the checkpoint are not used by this recipe"));
  return lines;
}

}  // namespace octachoron
