#include "core/train/session.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <thread>

#include "core/base/error.h"
#include "core/checkpoint/load.h"
#include "core/model/parameter_buffers.h"
#include "core/numerics/random.h"
#include "core/parallel/together.h"
#include "core/report/process_memory.h"
#include "core/report/tables.h"
#include "core/train/agreed_programs.h"
#include "core/train/algorithm_choices.h"

namespace octachoron {

namespace {

constexpr int kMostCalibrations = 3;  // in a row (contract 1.5)
constexpr std::int64_t kElementsWorthAThread = 1 << 18;
constexpr std::int64_t kPiece = 1 << 24;  // elements of a tensor that are made at once

// Elements [begin, begin + count) of a tensor. Each has its own random numbers, so any cut over threads gives the same bits.
template <class T>
void fill_initial(const ParameterTensor& tensor, std::uint64_t seed, std::int64_t begin, std::int64_t count, int threads,
                  T* data) {
  if (tensor.initial != Initial::normal) {
    std::fill_n(data, count, tensor.initial == Initial::one ? T(1) : T(0));
    return;
  }
  const std::int64_t parts = std::clamp<std::int64_t>(count / kElementsWorthAThread, 1, threads);
  const auto fill = [&](std::int64_t part) {
    const std::int64_t first = count * part / parts, last = count * (part + 1) / parts;
    fill_normal(seed, hash64(tensor.logical.name), tensor.deviation, tensor.logical.layout, begin + first, begin + last,
                data + first);
  };
  std::vector<std::jthread> others;
  for (std::int64_t part = 1; part < parts; ++part) others.emplace_back(fill, part);
  fill(0);
}

// Known before the device says so, who does not say what would help.
std::int64_t bytes_that_fit(const Device& device, const RankPrograms& programs) {
  const oct_device_properties properties = device.properties();
  const std::int64_t bytes = programs.arena_bytes();
  if (!properties.is_host && properties.memory_bytes > 0 && bytes > properties.memory_bytes)
    fail(ExitStatus::environment, "the step needs ", size_text(double(bytes)), " of device memory (",
         properties.description, " has ", size_text(double(properties.memory_bytes)),
         "); lower batch.micro or raise grid.tp, and see octachoron plan for what takes it");
  return bytes;
}

template <class T, class Finite>
bool all_finite(const std::byte* data, const View& view, Finite finite) {
  const T* elements = reinterpret_cast<const T*>(data);
  for (std::int64_t row = 0; row < view.rows; ++row)
    for (std::int64_t column = 0; column < view.columns; ++column)
      if (!finite(elements[row * view.pitch + column])) return false;
  return true;
}

bool all_finite(const std::byte* data, const View& view) {
  constexpr std::uint16_t exponent = 0x7f80;  // all ones: infinity or NaN
  switch (view.dtype) {
    case OCT_F32:
      return all_finite<float>(data, view, [](float x) { return std::isfinite(x); });
    case OCT_F64:
      return all_finite<double>(data, view, [](double x) { return std::isfinite(x); });
    case OCT_BF16:
      return all_finite<std::uint16_t>(data, view,
                                       [](std::uint16_t x) { return (x & exponent) != exponent; });
    default:
      return true;
  }
}

}  // namespace

ProcessGrid grid_of(const Parameters& parameters) {
  ProcessGrid grid;
  grid.extent[int(Axis::tp)] = parameters.grid.tp;
  grid.extent[int(Axis::cp)] = parameters.grid.cp;
  grid.extent[int(Axis::dp)] = parameters.grid.dp;
  grid.extent[int(Axis::pp)] = parameters.grid.pp;
  return grid;
}

TrainingSession::TrainingSession(const Parameters& parameters, const World& world, Backend& backend)
    : TrainingSession(parameters, world, backend,
                      agreed_programs(parameters, {grid_of(parameters), &backend.device(), &backend.recipe()}, world)) {}

TrainingSession::TrainingSession(const Parameters& parameters, const World& world, Backend& backend,
                                 RankPrograms programs)
    : parameters_(parameters),
      world_(world),
      grid_(grid_of(parameters)),
      rank_(world.rank()),
      device_(backend.device()),
      recipe_(backend.recipe()),
      threads_(backend.threads()),
      programs_(std::move(programs)),
      groups_(backend.communicator(), grid_, world.rank()),
      lanes_(backend.device()),
      libraries_bytes_(resident_bytes()) {
  together(world, [&] { return bytes_that_fit(device_, programs_); });
  // Before the arena: what is tried out needs room, and groups have buffers that are not planned.
  prepare_operations(programs_, device_, grid_, world);
  programs_.for_each([&](const char*, const PlannedProgram& planned) { groups_.add(planned.program); });
  arena_ = together(world, [&] {
    return std::make_unique<Arena>(device_, programs_.arena_bytes(), programs_.host_bytes());
  });
  const bool graphs = parameters.engine.graphs && device_.properties().has_graphs != 0;
  const ExecutionContext context{device_, backend.communicator(), groups_, lanes_, *arena_, grid_, rank_, graphs};
  const auto bind = [&](const PlannedProgram& planned) {
    return std::make_unique<Executor>(planned.program, planned.plan, context);
  };
  training_ = bind(programs_.training);
  validation_ = bind(programs_.validation);
  if (programs_.calibration) calibration_ = bind(*programs_.calibration);
  precision_ = std::make_unique<PrecisionState>(programs_, *training_);
  copies_ = std::make_unique<HostCopies>(*training_);
}

void TrainingSession::set_watchdog(const Executor::Watchdog& watchdog, double after_s) {
  for (Executor* executor : {training_.get(), validation_.get(), calibration_.get()})
    if (executor != nullptr) executor->set_watchdog(watchdog, after_s);
}

double TrainingSession::peak_flops() const {
  DType type = recipe_.storage(OCT_STORAGE_WEIGHT);
  for (const QuantizedTensor& tensor : programs_.quantization.tensors)
    if (tensor.is_weight) type = tensor.format();
  return device_.properties().peak_flops[type];
}

void TrainingSession::initialise() {
  const ParameterSet& set = programs_.set;
  for (int b = 0; b < int(set.buckets.size()); ++b)  // padding too is zero for ever
    for (const std::string& name : {ParameterBuffers::master_name(b), ParameterBuffers::exp_avg_name(b),
                                    ParameterBuffers::exp_avg_sq_name(b)})
      training_->clear(training_->find(name).value());
  for (const ShardRange& range : shard_ranges(set, grid_.place_in_group(rank_, Axis::dp | Axis::cp)))
    initialise_masters(range);
  precision_->reset();
  note_weights();
}

// A piece at a time: what the host holds beside the device stays small.
void TrainingSession::initialise_masters(const ShardRange& range) {
  const View masters = training_->find(ParameterBuffers::master_name(range.bucket)).value().flat();
  const ParameterTensor& tensor = programs_.set.tensors[range.tensor];
  std::vector<std::byte> piece;
  for (std::int64_t begin = range.flat_begin; begin < range.flat_end; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, range.flat_end - begin);
    const View view = masters.column_range(range.shard_offset + begin - range.flat_begin, count);
    const bool in_place = training_->is_host_readable(view);
    if (!in_place) piece.resize(std::size_t(view.bytes()));
    std::byte* data = in_place ? training_->address(view) : piece.data();
    if (view.dtype == OCT_F64)
      fill_initial(tensor, parameters_.run.seed, begin, count, threads_, reinterpret_cast<double*>(data));
    else
      fill_initial(tensor, parameters_.run.seed, begin, count, threads_, reinterpret_cast<float*>(data));
    if (!in_place) training_->write(view, 0, data);
  }
}

void TrainingSession::note_weights() {
  HostCopies copies(*training_);
  precision_->note_weights(world_, grid_, [&](const View& masters) {
    copies.clear();  // a bucket at a time
    copies.at(masters);
    copies.pull();
    return copies.at(masters);
  });
}

std::vector<std::string> TrainingSession::load(const std::string& path, bool same_rule, Moments moments) {
  copies_->clear();
  const std::vector<CheckpointTensor> tensors = parameter_state(moments);
  copies_->pull();  // padding is in no checkpoint
  load_checkpoint(world_.comm(), path, tensors);
  copies_->push();
  copies_->clear();
  precision_->reset();
  std::vector<std::string> lines = precision_->load(world_, path, same_rule);
  note_weights();
  return lines;
}

void TrainingSession::load_inputs(Executor& executor, const RankBatch& batch, double learning_rate,
                                  std::int64_t step) {
  const View tokens = executor.find(StepBuffers::tokens).value(),
             targets = executor.find(StepBuffers::targets).value();
  const int micro_batches = executor.program().schedule.micro_batches;
  ensure(std::int64_t(batch.ids.size()) == tokens.columns * micro_batches, "a batch of ", batch.ids.size(),
         " tokens");
  for (int m = 0; m < micro_batches; ++m) {
    const std::size_t begin = std::size_t(m * tokens.columns), bytes = std::size_t(tokens.bytes());
    std::memcpy(executor.address(tokens, m), batch.ids.data() + begin, bytes);
    std::memcpy(executor.address(targets, m), batch.targets.data() + begin, bytes);
  }
  auto* scalars = reinterpret_cast<double*>(executor.address(executor.find(StepBuffers::scalars).value()));
  scalars[OCT_SCALAR_LEARNING_RATE] = learning_rate;
  scalars[OCT_SCALAR_STEP] = double(step);
  scalars[OCT_SCALAR_INVERSE_TOKENS] =
      batch.global_valid_targets > 0 ? 1.0 / double(batch.global_valid_targets) : 0.0;
}

StepResult TrainingSession::read_result(const Executor& executor) const {
  const auto* result =
      reinterpret_cast<const double*>(executor.address(executor.find(StepBuffers::result).value()));
  return {.loss = result[3], .grad_norm = result[0], .finite = result[2] != 0};
}

StepResult TrainingSession::step(const RankBatch& batch, double learning_rate, std::int64_t step) {
  return step_with(batch, learning_rate, step, [&] { training_->run(); });
}

StepResult TrainingSession::step_observed(const RankBatch& batch, double learning_rate, std::int64_t step,
                                          std::span<const OperationRecord>& records) {
  return step_with(batch, learning_rate, step, [&] { records = training_->run_observed(); });
}

double TrainingSession::device_clock() {
  return device_.clock(lanes_.get(programs_.training.program.lanes.front()));
}

StepResult TrainingSession::step_with(const RankBatch& batch, double learning_rate, std::int64_t step,
                                      const std::function<void()>& run) {
  const int calibrations = calibrate_if_due(batch);
  scales_before_ = precision_->copy();
  load_inputs(*training_, batch, learning_rate, step);
  run();
  precision_->pull();
  precision_->apply(recipe_, step);
  StepResult result = read_result(*training_);
  result.calibrations = calibrations;
  return result;
}

// A tensor that stays zero, as the gradient behind a projection that starts at zero, is not waited for: it enters its
// history with the first step that sees it.
int TrainingSession::calibrate_if_due(const RankBatch& batch) {
  if (!calibration_) return 0;
  const int in_a_row = precision_->unknown().empty() ? 0 : precision_->calibrations_in_a_row();
  precision_->set_calibrations_in_a_row(in_a_row);
  if (in_a_row >= kMostCalibrations || precision_->unknown().empty()) return 0;
  precision_->set_calibrations_in_a_row(in_a_row + 1);
  calibrate(batch);
  return 1;
}

void TrainingSession::calibrate(const RankBatch& batch) {
  load_inputs(*calibration_, batch, 0, 0);
  calibration_->run();
  precision_->pull();
  precision_->apply(recipe_, 0);
}

double TrainingSession::validate(const RankBatch& batch) {
  load_inputs(*validation_, batch, 0, 0);
  validation_->run();
  return read_result(*validation_).loss;
}

Origin TrainingSession::step_checked(const RankBatch& batch, double learning_rate, std::int64_t step,
                                     StepResult& result) {
  const int calibrations = calibrate_if_due(batch);
  scales_before_ = precision_->copy();
  const Origin first = run_checked(batch, learning_rate, step, result);
  precision_->apply(recipe_, step);
  result.calibrations = calibrations;
  return first;
}

Origin TrainingSession::repeat_checked(const RankBatch& batch, double learning_rate, std::int64_t step,
                                       StepResult& result) {
  const std::vector<float> after = precision_->copy();
  precision_->restore(scales_before_);
  const Origin first = run_checked(batch, learning_rate, step, result);
  precision_->restore(after);
  return first;
}

Origin TrainingSession::run_checked(const RankBatch& batch, double learning_rate, std::int64_t step,
                                    StepResult& result) {
  load_inputs(*training_, batch, learning_rate, step);
  Origin first;
  std::int64_t place = 0;
  training_->run_stepwise([&](const Issue& issue) {
    if (first.what.empty()) first = {place, first_nonfinite(issue)};
    ++place;
  });
  precision_->pull();
  if (first.what.empty()) first.place = -1;
  result = read_result(*training_);
  return first;
}

StepResult TrainingSession::step_inspected(const RankBatch& batch, double learning_rate, std::int64_t step,
                                           const std::function<void(const Issue&)>& inspect) {
  return step_with(batch, learning_rate, step, [&] { training_->run_stepwise(inspect); });
}

std::vector<std::string> TrainingSession::given_up() const {
  return precision_->calibrations_in_a_row() < kMostCalibrations ? std::vector<std::string>{} : precision_->unknown();
}

std::string TrainingSession::first_nonfinite(const Issue& issue) const {
  const oct_op op = issue.operation->op;
  // Of a vocabulary part without ids the maximum is -infinity by definition; a gather only copies what was looked at.
  if (op == OCT_LOSS_STATISTICS || op == OCT_ALL_GATHER) return "";
  const StepProgram& program = training_->program();
  std::vector<std::byte> storage;
  for (const Operand& operand : issue.operation->operands) {
    const View& view = operand.view;
    if (view.absent() || !writes(operand.access)) continue;
    if (!all_finite(training_->look(view, program.schedule.calls[issue.call], storage), view))
      return describe(program, issue) + " wrote it to '" + program.buffers[view.buffer].name + "'";
  }
  // A cast makes a large number of an infinity: what was cast and not kept is known by its amax.
  const auto cast = find_cast(*issue.operation);
  if (cast && cast->x.absent() && !cast->amax.absent()) {
    std::uint32_t amax = 0;
    std::memcpy(&amax, training_->look(cast->amax, program.schedule.calls[issue.call], storage), sizeof amax);
    if (!std::isfinite(std::bit_cast<float>(amax)))
      return describe(program, issue) + " cast it to '" + program.buffers[cast->row.buffer].name + "'";
  }
  return "";
}

void TrainingSession::append_ranges(std::vector<CheckpointTensor>& out, const std::string& group,
                                    const std::function<std::string(int)>& buffer) const {
  const ParameterSet& set = programs_.set;
  std::vector<std::size_t> place;  // of each part's logical tensor
  for (const ParameterTensor& tensor : set.tensors) {
    if (tensor.flat_begin == 0) out.push_back({group + tensor.logical.name, tensor.logical, {}, OCT_F32});
    place.push_back(out.size() - 1);
  }
  for (const ShardRange& range : shard_ranges(set, grid_.place_in_group(rank_, Axis::dp | Axis::cp))) {
    const View view = training_->find(buffer(range.bucket)).value();
    std::byte* data = copies_->at(view) + range.shard_offset * size_of(view.dtype);
    out[place[std::size_t(range.tensor)]].ranges.push_back(
        {0, range.flat_begin, range.flat_end, data, view.dtype});
  }
  for (CheckpointTensor& tensor : out)
    std::sort(tensor.ranges.begin(), tensor.ranges.end(),
              [](const OwnedRange& a, const OwnedRange& b) { return a.flat_begin < b.flat_begin; });
}

std::vector<CheckpointTensor> TrainingSession::state() const {
  copies_->clear();
  std::vector<CheckpointTensor> tensors = parameter_state(Moments::load);
  copies_->pull();
  for (CheckpointTensor& tensor : precision_->tensors(rank_ == 0)) tensors.push_back(std::move(tensor));
  return tensors;
}

std::vector<CheckpointTensor> TrainingSession::parameter_state(Moments moments) const {
  std::vector<CheckpointTensor> tensors;
  append_ranges(tensors, "/master/", ParameterBuffers::master_name);
  if (moments == Moments::leave) return tensors;
  append_ranges(tensors, "/optimizer/exp_avg/", ParameterBuffers::exp_avg_name);
  append_ranges(tensors, "/optimizer/exp_avg_sq/", ParameterBuffers::exp_avg_sq_name);
  return tensors;
}

std::vector<CheckpointTensor> TrainingSession::gradients() const {
  copies_->clear();
  std::vector<CheckpointTensor> tensors;
  append_ranges(tensors, "/gradient/",
                [&](int b) { return ParameterBuffers::gradient_shard_name(programs_.set, b); });
  copies_->pull();
  return tensors;
}

}  // namespace octachoron
