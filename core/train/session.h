#pragma once
/// One rank's programs on its device: runs steps, and gives access to the state that outlives them.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/data/batch.h"
#include "core/engine/backend.h"
#include "core/engine/executor.h"
#include "core/schedule/rank_programs.h"
#include "core/train/precision_state.h"

namespace octachoron {

struct StepResult {
  double loss = 0;       ///< nats, mean over the valid targets of the global batch
  double grad_norm = 0;  ///< before clipping
  bool finite = true;    ///< false: nothing was updated
  int calibrations = 0;  ///< that preceded the step
};

/// Of the optimiser: they change no loss and are twice as large as the weights.
enum class Moments { load, leave };

/// The first operation that wrote a value that is not finite.
struct Origin {
  std::int64_t place = -1;  ///< among the operations of the step; -1: there is none
  std::string what;         ///< the operation and the buffer it wrote
};

class TrainingSession {
 public:
  /// Builds, plans, allocates and binds. Collective over the grid. \param parameters must outlive the session
  /// \throws Error(usage) on all ranks, before anything is allocated, where they have other programs than each other
  TrainingSession(const Parameters& parameters, const World& world, Backend& backend);
  /// The same with programs of the caller, who knows that those of all ranks fit.
  TrainingSession(const Parameters& parameters, const World& world, Backend& backend, RankPrograms programs);
  TrainingSession(const TrainingSession&) = delete;
  TrainingSession& operator=(const TrainingSession&) = delete;

  const RankPrograms& programs() const { return programs_; }
  const ProcessGrid& grid() const { return grid_; }
  Executor& training() { return *training_; }
  Executor& validation() { return *validation_; }
  const PrecisionState& precision() const { return *precision_; }
  /// What the last training step saw of each quantised tensor, in the order of the plan.
  std::vector<PrecisionRecord> precision_records() const { return precision_->records(*training_); }
  /// Of all programs, see Executor::set_watchdog.
  void set_watchdog(const Executor::Watchdog& watchdog, double after_s);
  /// Of the device, in the type in which most products are made, per second; 0: unknown.
  double peak_flops() const;
  Arena& arena() { return *arena_; }
  GroupTable& groups() { return groups_; }
  std::int64_t libraries_bytes() const { return libraries_bytes_; }  ///< resident before the arena was allocated

  /// Masters from the seed (contract 1.1), moments zero, histories empty but for those of weights. Collective.
  void initialise();
  /// Takes the state of a checkpoint. Collective. \param same_rule the recipe and its parameters are those it was made with
  /// \return lines for the user
  std::vector<std::string> load(const std::string& path, bool same_rule, Moments moments = Moments::load);
  /// Begins the histories that know nothing with a pass over the batch; changes nothing else. \pre there are some
  void calibrate(const RankBatch& batch);
  /// Calibrates before, where a tensor's history knows nothing (contract 1.5).
  StepResult step(const RankBatch& batch, double learning_rate, std::int64_t step);
  /// The same step with the same bits; `records` gets begin and end of each operation, valid until the next
  /// one. A calibration before it is not among them.
  StepResult step_observed(const RankBatch& batch, double learning_rate, std::int64_t step,
                           std::span<const OperationRecord>& records);
  /// The device's clock now, in seconds: that of the records.
  double device_clock();
  /// Mean loss of a batch, forward only.
  double validate(const RankBatch& batch);
  /// The same step operation by operation, with what this rank saw first. Leaves the state as step() does.
  Origin step_checked(const RankBatch& batch, double learning_rate, std::int64_t step, StepResult& result);
  /// The last step once more, after one that updated nothing: with the scales it had, and without rolling histories twice.
  Origin repeat_checked(const RankBatch& batch, double learning_rate, std::int64_t step, StepResult& result);
  /// The same step operation by operation. \param inspect called after each, on this rank
  StepResult step_inspected(const RankBatch& batch, double learning_rate, std::int64_t step,
                            const std::function<void(const Issue&)>& inspect);
  /// Tensors that still know no scale after as many calibrations in a row as are tried.
  std::vector<std::string> given_up() const;

  /// `/master`, `/optimizer/exp_avg`, `/optimizer/exp_avg_sq` of all tensors, with the ranges this rank owns,
  /// and the tables of `/precision`: in place, or in copies of the host that last until the next call of one of these.
  std::vector<CheckpointTensor> state() const;
  /// `/gradient/<tensor>` of the last step, before clipping. Valid until the next step or validation.
  std::vector<CheckpointTensor> gradients() const;
  /// Frees the copies that state() and gradients() made.
  void release_copies() { copies_->clear(); }

 private:
  StepResult step_with(const RankBatch& batch, double learning_rate, std::int64_t step,
                       const std::function<void()>& run);
  int calibrate_if_due(const RankBatch& batch);
  Origin run_checked(const RankBatch& batch, double learning_rate, std::int64_t step, StepResult& result);
  void load_inputs(Executor& executor, const RankBatch& batch, double learning_rate, std::int64_t step);
  StepResult read_result(const Executor& executor) const;
  void initialise_masters(const ShardRange& range);
  std::vector<CheckpointTensor> parameter_state(Moments moments) const;
  void append_ranges(std::vector<CheckpointTensor>& out, const std::string& group,
                     const std::function<std::string(int)>& buffer) const;
  void note_weights();
  std::string first_nonfinite(const Issue& issue) const;

  const Parameters& parameters_;
  const World& world_;
  ProcessGrid grid_;
  int rank_;
  Device& device_;
  const Recipe& recipe_;
  int threads_;
  RankPrograms programs_;
  GroupTable groups_;
  LaneSet lanes_;
  std::int64_t libraries_bytes_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Executor> training_, validation_, calibration_;
  std::unique_ptr<PrecisionState> precision_;
  std::unique_ptr<HostCopies> copies_;
  std::vector<float> scales_before_;  ///< of the last step
};

ProcessGrid grid_of(const Parameters& parameters);

}  // namespace octachoron
