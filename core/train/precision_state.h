#pragma once
/// Scales and amax histories of a run: what quantisation keeps between steps, on the device, in checkpoints and in the log.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/engine/host_copies.h"
#include "core/parallel/world.h"
#include "core/schedule/rank_programs.h"

namespace octachoron {

/// What the last step saw of one tensor, over all ranks; parts that several ranks hold count once.
struct PrecisionRecord {
  float amax = 0;  ///< largest of all micro-batches; may be infinite or NaN
  std::uint64_t saturated = 0, flushed = 0, nonfinite = 0;
};

/// Sums and the largest finite amax over tensors.
PrecisionRecord total(const std::vector<PrecisionRecord>& records);

class PrecisionState {
 public:
  /// \param programs, training must outlive it
  PrecisionState(const RankPrograms& programs, const Executor& training);
  /// Takes scales and histories from the device: to be called after each program that may change them.
  void pull() { tables_.pull(); }

  const QuantizationPlan& plan() const { return programs_.quantization; }
  bool empty() const { return plan().empty(); }
  /// Histories know nothing, scales are 1.
  void reset();
  /// Histories of weights that know nothing begin with the amax of the masters. Collective.
  /// \param masters gives a bucket's masters as the host sees them, until the next call
  void note_weights(const World& world, const ProcessGrid& grid,
                    const std::function<const std::byte*(const View&)>& masters);

  /// Tensors other than weights whose history has no positive entry yet: their next step needs a calibration.
  std::vector<std::string> unknown() const;
  float scale(int row) const { return *scale_at(row); }
  std::span<const float> history(int row) const;  ///< newest first; 0: nothing known, or an amax of zero
  /// Of the last run of `executor`, which is that of a training or calibration program.
  std::vector<PrecisionRecord> records(const Executor& executor) const;
  /// A recipe with an update rule of its own sets the scales from the histories, after each step.
  void apply(const Recipe& recipe, std::int64_t step);

  /// Calibrations in a row that left tensors unknown; a part of the state, so that a resumed run goes on alike.
  int calibrations_in_a_row() const { return int(calibrations_); }
  void set_calibrations_in_a_row(int count) { calibrations_ = float(count); }
  /// All scales and histories, to be put back.
  std::vector<float> copy() const;
  void restore(const std::vector<float>& copied);

  /// `/precision/amax/<tensor>`, `/precision/scale/<tensor>` and `/precision/calibrations`. \param owner the one rank that stores them
  std::vector<CheckpointTensor> tensors(bool owner);
  /// Takes from a checkpoint what fits. Collective. \param same_rule the scales too, else they are made anew from the
  /// histories \return lines for the user on what is new or left aside
  std::vector<std::string> load(const World& world, const std::string& path, bool same_rule);

 private:
  float* scale_at(int row) const { return scales_ + row * scale_.columns; }
  float* history_at(int row) const { return histories_ + row * history_.columns; }
  void make_scale(int row);

  const RankPrograms& programs_;
  const Executor& training_;
  View scale_, history_;
  HostCopies tables_;
  float *scales_ = nullptr, *histories_ = nullptr;  // in the tables
  float calibrations_ = 0;  // as it lies in checkpoints
};

}  // namespace octachoron
