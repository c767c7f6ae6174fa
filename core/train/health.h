#pragma once
/// Health of a run while it runs: what the losses, counters, scales and histories of the last steps say,
/// tensor by tensor, and what to try next.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/train/session.h"

namespace octachoron {

/// What does not change of a quantised tensor.
struct HealthTensor {
  std::string name;
  std::int64_t elements = 0;  ///< cast in a step, over all ranks and micro-batches, copies once
  float format_max = 0;
  int margin = 0;
  int history = 0;      ///< steps; 0: the scale comes from the tensor itself
  bool frozen = false;  ///< the recipe never makes its scale anew
  bool is_weight = false;
};

/// One step.
struct HealthSample {
  std::int64_t step = 0;
  double loss = 0;
  /// By tensor, like HealthTensor.
  std::vector<PrecisionRecord> records;
  std::vector<float> scales;  ///< after the step
  std::vector<bool> known;    ///< the history has a positive entry
};

struct Alarm {
  std::string kind;    ///< "saturation", "flush", "frozen scale", "empty history", "nonfinite", "loss"
  std::string tensor;  ///< empty: of the run
  std::string text;    ///< a sentence as of an Error
};

inline constexpr int kHealthWindow = 16;  ///< steps, or two more than the longest history

/// Pure. \param window the last steps, the newest last
std::vector<Alarm> health_alarms(std::span<const HealthTensor> tensors, std::span<const HealthSample> window);

/// The tensors that saturate, flush or are not finite most in a step, "layers.3.mlp.fc1.input: saturated 12
/// of 65536", at most `most` of them; none where all counts are zero.
std::vector<std::string> worst_tensors(std::span<const HealthTensor> tensors, const HealthSample& sample,
                                       std::size_t most);

std::vector<HealthTensor> health_tensors(const RankPrograms& programs, const ProcessGrid& grid);

/// Follows a session. Each alarm comes once per tensor and window.
class HealthWatch {
 public:
  /// \param session must outlive it
  explicit HealthWatch(const TrainingSession& session);
  /// To be called after each step. \param loss NaN: the step had no target \return alarms, for stderr
  std::vector<std::string> note(std::int64_t step, double loss);
  /// Of the last step, for the log.
  std::vector<std::string> worst(std::size_t most = 3) const;

 private:
  HealthSample sample(std::int64_t step, double loss) const;

  const TrainingSession& session_;
  std::vector<HealthTensor> tensors_;
  std::size_t window_size_ = kHealthWindow;
  std::vector<HealthSample> window_;
  std::map<std::string, std::int64_t> raised_;  ///< kind and tensor -> step
  bool given_up_reported_ = false;
};

}  // namespace octachoron
