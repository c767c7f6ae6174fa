#include "tests/parallel/harness.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/config/validate.h"
#include "core/numerics/checksum.h"
#include "core/numerics/random.h"
#include "core/train/agreed_programs.h"
#include "core/train/learning_rate.h"

namespace octachoron::parity {

namespace {

std::string tokens_like_text(int vocab, int tokens) {
  std::string bytes;
  std::uint64_t id = 1;
  for (int i = 0; i < tokens; ++i) {
    const std::uint64_t random = splitmix64(std::uint64_t(i));
    id = random % 4 == 0 ? (random >> 8) % vocab : (3 * id + 1) % vocab;
    bytes.push_back(char(id));
  }
  return bytes;
}

void sleep_until_done(MPI_Request request) {
  for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done;) ::usleep(2000);
}

}  // namespace

TokenFileForTests::TokenFileForTests(MPI_Comm comm, int vocab, int tokens) : comm_(comm) {
  char path[256] = {};
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  if (rank == 0) {
    const std::string pattern =
        (std::filesystem::temp_directory_path() / "octachoron-parity-XXXXXX").string();
    std::strncpy(path, pattern.c_str(), sizeof path - 1);
    const int file = ::mkstemp(path);
    const std::string bytes = tokens_like_text(vocab, tokens);
    if (file < 0 || ::write(file, bytes.data(), bytes.size()) != ssize_t(bytes.size())) MPI_Abort(comm, 1);
    ::close(file);
  }
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, comm);
  path_ = path;
}

TokenFileForTests::~TokenFileForTests() {
  int rank = 0;
  MPI_Comm_rank(comm_, &rank);
  MPI_Barrier(comm_);
  if (rank == 0) std::remove(path_.c_str());
}

Parameters parameters_of(const std::string& text, const std::vector<std::string>& overrides) {
  ParsedParameters parsed = parse_parameter_text(text, "parity.ini", overrides);
  parsed.values.backend.plugin_path = OCTACHORON_BINARY_DIR "/lib/octachoron";
  finalize(parsed, 0);
  validate(parsed.values, 0);
  return parsed.values;
}

Trial::Trial(const Parameters& parameters, MPI_Comm comm, Casts casts)
    : parameters_(parameters),
      world_(comm),
      data_(parameters_.data.train, parameters_.data.format, parameters_.model.sequence,
            parameters_.model.vocab),
      order_(data_.samples(), parameters_.run.seed),
      shape_{parameters_.batch.global, parameters_.batch.micro, parameters_.grid.dp,
             grid_of(parameters_).coordinate(world_.rank())[int(Axis::dp)]},
      backend_(parameters_, world_),
      session_(parameters_, world_, backend_,
               agreed_programs(parameters_, {grid_of(parameters_), &backend_.device(), &backend_.recipe()}, world_, casts)) {
  ensure(grid().size() == world_.size(), to_string(grid()), " on ", world_.size(), " ranks");
  session_.initialise();
}

StepResult Trial::step() {
  RankBatch batch;
  training_batch(data_, order_, shape_, steps_ * parameters_.batch.global, batch);
  ++steps_;
  return session_.step(batch, learning_rate(parameters_.optimizer, steps_), steps_);
}

StepResult Trial::step(const GlobalBatch& batch, double rate) {
  return session_.step(cut(batch), rate, steps_ + 1);
}

StepResult Trial::checked_step(const GlobalBatch& batch, double rate, bool again, Origin* origin) {
  StepResult result;
  const Origin found = again ? session_.repeat_checked(cut(batch), rate, steps_ + 1, result)
                             : session_.step_checked(cut(batch), rate, steps_ + 1, result);
  if (origin != nullptr) *origin = found;
  return result;
}

double Trial::validate(const GlobalBatch& batch) {
  return session_.validate(cut(batch));
}

GlobalBatch Trial::next_batch() const {
  RankBatch all;
  training_batch(data_, order_, {parameters_.batch.global, 1, 1, 0}, steps_ * parameters_.batch.global, all);
  return {all.ids, all.targets};
}

RankBatch Trial::cut(const GlobalBatch& batch) const {
  RankBatch mine;
  const std::int64_t sequence = parameters_.model.sequence;
  for (std::int64_t m = 0; m < shape_.micro_batches(); ++m)
    for (std::int64_t row = 0; row < shape_.micro; ++row) {
      const std::int64_t at = shape_.position(0, m, row) * sequence;
      mine.ids.insert(mine.ids.end(), &batch.ids[at], &batch.ids[at] + sequence);
      mine.targets.insert(mine.targets.end(), &batch.targets[at], &batch.targets[at] + sequence);
    }
  const auto valid = [](const std::vector<std::int32_t>& targets) {
    return std::int64_t(targets.size()) - std::count(targets.begin(), targets.end(), kIgnoredTarget);
  };
  mine.valid_targets = valid(mine.targets);
  mine.global_valid_targets = valid(batch.targets);
  return mine;
}

std::string Trial::state_bytes() {
  std::string bytes;
  for (const CheckpointTensor& tensor : session_.state())
    for (const OwnedRange& range : tensor.ranges)
      bytes.append(static_cast<const char*>(range.data),
                   std::size_t((range.flat_end - range.flat_begin) * size_of(range.dtype)));
  return bytes;
}

void Trial::set_master(const std::string& tensor, std::int64_t row, std::int64_t column, double value) {
  for (const CheckpointTensor& part : session_.state()) {
    if (part.path != "/master/" + tensor) continue;
    for (const OwnedRange& range : part.ranges)
      for (const Piece& piece : pieces(part.tensor.layout, range.flat_begin, range.flat_end, Copies::all)) {
        const std::int64_t r = row - piece.row, c = column - piece.column;
        if (r < 0 || r >= piece.rows || c < 0 || c >= piece.columns) continue;
        const std::int64_t at = piece.offset - range.flat_begin + r * piece.columns + c;
        if (range.dtype == OCT_F64)
          static_cast<double*>(range.data)[at] = value;
        else
          static_cast<float*>(range.data)[at] = float(value);
      }
  }
}

void Trial::poison() {
  const PlannedProgram& planned = session_.programs().training;
  const StepProgram& program = planned.program;
  std::int64_t end = 0;
  for (int b = 0; b < int(program.buffers.size()); ++b)
    if (program.buffers[b].persistent)
      end = std::max(end,
                     planned.plan.placement[b * program.instances_per_buffer()] + program.buffers[b].bytes);
  session_.arena().poison(end);
}

std::vector<std::string> Trial::unequal_copies() {
  std::vector<std::string> unequal;
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm_split(comm(), session_.grid().group_root(rank(), Axis::tp), rank(), &group);
  const ParameterSet& set = session_.programs().set;
  for (const CheckpointTensor& part : session_.state()) {
    const int index = set.find(part.tensor.name);  // none of a scale or history
    if (index < 0 || !set.tensors[index].replicated) continue;
    std::string bytes = part.path;
    for (const OwnedRange& range : part.ranges)
      bytes.append(static_cast<const char*>(range.data),
                   std::size_t((range.flat_end - range.flat_begin) * size_of(range.dtype)));
    const std::uint64_t own = hash64(bytes);
    std::uint64_t first = own;
    MPI_Bcast(&first, 1, MPI_UINT64_T, 0, group);
    int differs = first != own;
    MPI_Allreduce(MPI_IN_PLACE, &differs, 1, MPI_INT, MPI_MAX, comm());
    if (differs) unequal.push_back(part.path);
  }
  MPI_Comm_free(&group);
  return unequal;
}

Trajectory run(const Parameters& parameters, MPI_Comm comm, int steps,
               const std::vector<int>& gradient_steps) {
  Trial trial(parameters, comm);
  Trajectory trajectory;
  trajectory.initial = trial.masters();
  for (int step = 1; step <= steps; ++step) {
    const StepResult result = trial.step();
    ensure(result.finite, "step ", step, " is not finite on ", to_string(trial.grid()));
    trajectory.loss.push_back(result.loss);
    trajectory.grad_norm.push_back(result.grad_norm);
    if (std::find(gradient_steps.begin(), gradient_steps.end(), step) != gradient_steps.end())
      trajectory.gradients[step] = trial.gradients();
  }
  trajectory.masters = trial.masters();
  return trajectory;
}

void on_first_ranks(MPI_Comm comm, int ranks, const std::function<void(MPI_Comm)>& action) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank < ranks ? 0 : MPI_UNDEFINED, rank, &part);
  if (part != MPI_COMM_NULL) {
    try {
      action(part);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      MPI_Abort(comm, 1);
    }
    MPI_Comm_free(&part);
  }
  MPI_Request request;
  MPI_Ibarrier(comm, &request);
  sleep_until_done(request);
}

}  // namespace octachoron::parity
