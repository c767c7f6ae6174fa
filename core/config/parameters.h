#pragma once
/// The parameter file as plain data (contract, section 3). One struct a section, fields named as the keys.
/// Fields whose default depends on others ("auto", empty, 0) are resolved by finalize() in validate.h.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace octachoron {

struct RunParameters {
  std::string name, output;
  std::int64_t steps = -1;
  std::uint64_t seed = 1;
  std::string resume = "auto";  ///< auto, none, or a file
  std::int64_t log_every = 10;
  std::int64_t wall_limit_s = 0;  ///< seconds; 0: auto
  std::int64_t max_skipped = 5;
  bool operator==(const RunParameters&) const = default;
};

struct GridParameters {
  int dp = 1, tp = 1, pp = 1, cp = 1;
  int virtual_stages = 1;
  bool operator==(const GridParameters&) const = default;
};

struct BackendParameters {
  std::string device = "cpu", precision = "fp32", comm;  ///< comm empty: mpi with cpu, nccl with cuda
  std::string plugin_path;
  bool operator==(const BackendParameters&) const = default;
};

enum class ModelFamily { gpt2, llama };

struct ModelParameters {
  ModelFamily family = ModelFamily::gpt2;
  std::int64_t layers = 0, hidden = 0, heads = 0, sequence = 0;
  std::int64_t kv_heads = 0, head_dim = 0, ffn = 0;  ///< 0: the family's default, see finalize()
  std::int64_t vocab = 0;                            ///< 0: 256 for text, else the file's
  bool tie_embeddings = true, qkv_bias = true;
  double rope_theta = 0;  ///< 0 for gpt2
  double norm_epsilon = 1e-5, init_std = 0.02;
  bool operator==(const ModelParameters&) const = default;
};

struct BatchParameters {
  std::int64_t global = 0, micro = 1;  ///< sequences
  bool operator==(const BatchParameters&) const = default;
};

struct PrecisionParameters {
  std::string format = "hybrid";
  int margin = 0;
  int amax_history = 16;
  std::string amax_algorithm = "max", head = "bf16";
  std::vector<std::string> exclude;
  std::int64_t high_precision_first = 0, high_precision_last = 0;
  std::string fallback = "refuse";
  bool operator==(const PrecisionParameters&) const = default;
};

enum class Decay { cosine, linear, constant };

struct OptimizerParameters {
  double learning_rate = 3e-4, min_learning_rate = -1;  ///< -1: 0.1 learning_rate
  std::int64_t warmup = 0;
  Decay decay = Decay::cosine;
  std::int64_t decay_steps = 0;  ///< 0: run.steps
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1, clip = 1.0;
  bool operator==(const OptimizerParameters&) const = default;
};

struct DataParameters {
  std::vector<std::string> train, validation;
  std::string format = "auto";
  bool repeat = true;
  std::int64_t validate_every = 100, validate_batches = 10;
  bool operator==(const DataParameters&) const = default;
};

enum class ScheduleKind { one_f_one_b, interleaved, gpipe };
enum class Recompute { none, selective, full };

struct ParallelParameters {
  bool sequence_parallel = true, overlap = true;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::vector<std::int64_t> stage_layers;
  Recompute recompute = Recompute::none;
  double bucket_mib = 32;
  bool operator==(const ParallelParameters&) const = default;
};

struct CheckpointParameters {
  std::string directory;  ///< empty: <output>/checkpoints
  std::int64_t every = 0, every_minutes = 30, keep = 2;
  bool async = true;
  bool operator==(const CheckpointParameters&) const = default;
};

struct TraceParameters {
  std::vector<std::int64_t> steps, gradients;  ///< step numbers, ascending
  bool operator==(const TraceParameters&) const = default;
};

/// What runs in place of a model, to show what hides a transfer and what does not.
enum class ExamplePattern { none, independent, wait_at_once, dependent };

struct ExampleParameters {
  ExamplePattern pattern = ExamplePattern::none;
  bool operator==(const ExampleParameters&) const = default;
};

struct EngineParameters {
  bool graphs = true;
  int threads = 0;  ///< 0: auto = node's cores / its ranks
  bool operator==(const EngineParameters&) const = default;
};

struct Parameters {
  RunParameters run;
  GridParameters grid;
  BackendParameters backend;
  ModelParameters model;
  BatchParameters batch;
  PrecisionParameters precision;
  OptimizerParameters optimizer;
  DataParameters data;
  ParallelParameters parallel;
  CheckpointParameters checkpoint;
  TraceParameters trace;
  EngineParameters engine;
  ExampleParameters example;
  /// Sections [plugin.NAME]: "NAME.key" -> value, checked by the plugin itself.
  std::map<std::string, std::string> plugin;

  /// Micro-batches a rank runs through in one optimiser step.
  std::int64_t micro_batches() const { return batch.global / (batch.micro * grid.dp); }
  bool operator==(const Parameters&) const = default;
};

}  // namespace octachoron
