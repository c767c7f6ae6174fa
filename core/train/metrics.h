#pragma once
/// `metrics.jsonl` (contract, section 4): one object a step, written by one rank.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "core/trace/intervals.h"
#include "core/train/precision_state.h"

namespace octachoron {

struct StepMetrics {
  std::int64_t step = 0;
  double time = 0;  ///< seconds since 1970
  double loss = 0, grad_norm = 0, learning_rate = 0;
  std::int64_t samples = 0, tokens = 0;  ///< totals since the first step of the first run
  double step_ms = 0, tokens_per_s = 0;
  double model_tflops_per_device = 0;
  double peak_tflops = 0;  ///< of one device; 0: unknown
  std::int64_t skipped = 0;
  std::optional<Accounting> intervals;       ///< means over ranks, of a traced step
  std::optional<PrecisionRecord> precision;  ///< sums over the quantised tensors, if there are any
  int calibrated = 0;                        ///< calibrations before the step
  std::optional<double> validation_loss;
};

/// One line without its end. Floats in the shortest form that reads back the same; non-finite numbers are
/// null, and so are the interval fields of a step that was not traced. step_ms of a traced one is a mean over
/// ranks too: step_ms = compute_ms + comm_ms - overlap_ms + idle_ms.
std::string format_metrics(const StepMetrics& metrics);

/// "step 10/600  loss 3.1234  ...": what rank 0 prints.
std::string progress_line(const StepMetrics& metrics, std::int64_t steps);

/// Whether the file of a folder, if there is one, can be added to. Changes nothing. \throws Error(data)
void probe_metrics(const std::string& folder);

class MetricsFile {
 public:
  /// Makes folder and file where missing. Lines after `resumed_step` move to metrics.<n>.jsonl, n the first free
  /// number, and so does what a killed run left of a line. \throws Error(data)
  MetricsFile(const std::string& folder, std::int64_t resumed_step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Adds a whole line or nothing. \return the system's reason if it cannot, else empty
  std::string write(const StepMetrics& metrics);

 private:
  int descriptor_ = -1;
};

/// FLOPs of a training step of one token: 6 x (matrix weights, head once) + 6 x layers x sequence x heads x
/// head_dim (causal attention; recomputation is not counted).
double training_flops_per_token(std::int64_t matrix_weights, std::int64_t layers, std::int64_t sequence,
                                std::int64_t attention_columns);

}  // namespace octachoron
