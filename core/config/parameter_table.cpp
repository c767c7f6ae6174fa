/// The one table of parameters. Order here is the order of the documentation and of format_parameters().
#include <algorithm>

#include "core/config/parameter_fields.h"

namespace octachoron {

namespace {

using namespace fields;  // NOLINT: the makers of the rows below

using P = Parameters;
using Rows = std::vector<ParameterInfo>;
constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

bool any_text(const std::string&) {
  return true;
}

bool only_of(const std::string& text, const char* letters) {
  return !text.empty() && text.find_first_not_of(letters) == std::string::npos;
}

bool is_run_name(const std::string& text) {
  return text.size() <= 64 &&
         only_of(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
}

bool is_plugin(const std::string& text) {
  return text.find('/') != std::string::npos || only_of(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
}

std::optional<std::vector<std::string>> parse_files_or_none(std::string_view text) {
  return text == "none" ? std::vector<std::string>{} : parse_list(text);
}

std::string format_texts(const std::vector<std::string>& entries) {
  return join(entries);
}
std::string format_numbers(const std::vector<std::int64_t>& values) {
  return format_integers(values);
}

std::optional<std::vector<std::int64_t>> parse_counts(std::string_view text) {
  auto counts = parse_integers(text);
  if (counts && std::any_of(counts->begin(), counts->end(), [](auto count) { return count < 1; }))
    counts.reset();
  return counts;
}

ParameterInfo wall_limit() {
  const std::string key = "run.wall_limit", legal = "auto, [D-]HH:MM:SS above 0";
  const About about{key, "[D-]HH:MM:SS",
                    "The run stops with a checkpoint and exit status 75 before this much time has passed",
                    "auto (Slurm's end of the job; none outside)"};
  return row(
      about, legal,
      [=](Parameters& p, const std::string& value) {
        const auto seconds = value == "auto" ? 0 : parse_duration(value);
        if (!seconds || (*seconds == 0 && value != "auto"))
          refuse(key, value, "is not a length of time", legal, "write 02:30:00 for two and a half hours");
        p.run.wall_limit_s = *seconds;
      },
      [](const Parameters& p) { return p.run.wall_limit_s ? format_duration(p.run.wall_limit_s) : "auto"; });
}

Rows run_rows() {
  using R = RunParameters;
  return {
      word({"run.name", "text", "Name of the run, in messages and in the default of run.output",
            "the parameter file's name without its ending", "1 to 64 letters, digits, '.', '_', '-'"},
           Field{&P::run, &R::name}, is_run_name),
      word({"run.output", "folder", "Where everything the run writes goes; made if absent", "runs/<name>",
            "any path"},
           Field{&P::run, &R::output}, any_text),
      number_or({"run.steps", "steps",
                 "Length of the whole run, not counted from a resume; 0 saves step 0 and ends", "required"},
                Field{&P::run, &R::steps}, {0, kInt32Max}, -1, ""),
      number({"run.seed", "", "Seed of the weights and of the order of the data", "", "<= 2^64-1"},
             Field{&P::run, &R::seed}, {0}),
      word({"run.resume", "",
            "auto: from the newest complete checkpoint of this run, if there is one; none: a new run; or a "
            "checkpoint",
            "", "auto, none, file"},
           Field{&P::run, &R::resume}, any_text),
      number({"run.log_every", "steps",
              "Steps between lines on the console and between traced intervals; first and last always"},
             Field{&P::run, &R::log_every}, {1}),
      wall_limit(),
      number({"run.max_skipped", "steps",
              "Steps skipped in a row, for gradients that are not finite, before exit status 5"},
             Field{&P::run, &R::max_skipped}, {0, 1000}),
  };
}

Rows grid_rows() {
  using G = GridParameters;
  const Range<int> size{1};
  const std::string product = "dp x tp x pp x cp = ranks";
  return {
      number({"grid.dp", "ranks", "Data parallel: replicas that share the batch", "", product},
             Field{&P::grid, &G::dp}, size),
      number({"grid.tp", "ranks", "Tensor parallel: ranks that share each layer", "",
              product + "; divides model.heads, model.ffn"},
             Field{&P::grid, &G::tp}, size),
      number({"grid.pp", "ranks", "Pipeline parallel: stages of layers", "", product + "; <= model.layers"},
             Field{&P::grid, &G::pp}, size),
      number({"grid.cp", "ranks", "Context parallel: ranks that share each sequence", "",
              product + "; model.sequence % (2 cp) = 0 if > 1"},
             Field{&P::grid, &G::cp}, size),
      number({"grid.virtual_stages", "chunks a stage", "Chunks of layers each pipeline stage holds", "",
              "<= model.layers / grid.pp; > 1 needs grid.pp > 1 and parallel.schedule = interleaved"},
             Field{&P::grid, &G::virtual_stages}, size),
  };
}

Rows backend_rows() {
  using B = BackendParameters;
  const std::string plugin = "NAME of [a-z0-9-]+, or a path with '/'";
  return {
      word({"backend.device", "plugin", "What computes", "", "cpu, cuda, " + plugin},
           Field{&P::backend, &B::device}, is_plugin),
      word({"backend.precision", "plugin", "How weights, activations and GEMM operands are stored", "",
            "fp64, fp32, bf16, fp8-delayed, fp8-current, " + plugin},
           Field{&P::backend, &B::precision}, is_plugin),
      word({"backend.comm", "plugin", "What communicates", "nccl with cuda, mpi with others",
            "pairs the plugin accepts; " + plugin},
           Field{&P::backend, &B::comm}, is_plugin),
      word({"backend.plugin_path", "folders by ':'",
            "Searched for plugins before the build tree or the prefix", "empty", "any paths"},
           Field{&P::backend, &B::plugin_path}, any_text),
  };
}

Rows model_rows() {
  using M = ModelParameters;
  const Range<std::int64_t> size{1};
  return {
      choice<M, ModelFamily>(
          {"model.family", "", "gpt2: LayerNorm, GELU, learned positions; llama: RMSNorm, gated SiLU, RoPE"},
          {&P::model, &M::family}, {{"gpt2", ModelFamily::gpt2}, {"llama", ModelFamily::llama}}),
      number_or({"model.layers", "", "Transformer blocks", "required"}, Field{&P::model, &M::layers}, size, 0,
                ""),
      number_or({"model.hidden", "", "Width of the residual stream", "required"},
                Field{&P::model, &M::hidden}, {2, std::numeric_limits<std::int64_t>::max(), true}, 0, ""),
      number_or({"model.heads", "", "Query heads", "required", "% grid.tp = 0"}, Field{&P::model, &M::heads},
                size, 0, ""),
      number_or({"model.sequence", "tokens", "Length of a sample", "required"},
                Field{&P::model, &M::sequence}, {1, 1 << 20}, 0, ""),
      number_or({"model.kv_heads", "", "Key and value heads", "model.heads",
                 "divides model.heads; divides grid.tp (replicated) or is a multiple of it"},
                Field{&P::model, &M::kv_heads}, size, 0, ""),
      number_or({"model.head_dim", "", "Width of a head", "hidden / heads"}, Field{&P::model, &M::head_dim},
                {2, 256, true}, 0, ""),
      number_or({"model.ffn", "", "Width inside the MLP",
                 "gpt2 4 hidden; llama 8 hidden / 3 up to a multiple of 256", "% grid.tp = 0"},
                Field{&P::model, &M::ffn}, size, 0, ""),
      number_or({"model.vocab", "ids", "Size of the vocabulary",
                 "256 for text, else the data file's, else required"},
                Field{&P::model, &M::vocab}, {2, 1 << 24}, 0, ""),
      on_off({"model.tie_embeddings", "", "The head uses the token embedding's weight", "gpt2 on, llama off"},
             Field{&P::model, &M::tie_embeddings}),
      on_off({"model.qkv_bias", "", "Biases of query, key and value", "gpt2 on, llama off", "gpt2: on"},
             Field{&P::model, &M::qkv_bias}),
      number_or({"model.rope_theta", "", "Base of the rotary embedding", "llama 10000", "refused for gpt2"},
                Field{&P::model, &M::rope_theta}, {.least = 0, .above_least = true}, 0, ""),
      number({"model.norm_epsilon", "", "Added to the variance in norms"}, Field{&P::model, &M::norm_epsilon},
             {.least = 0, .above_least = true}),
      number({"model.init_std", "",
              "Standard deviation of initial weights; residual projections: / sqrt(2 layers)"},
             Field{&P::model, &M::init_std}, {0}),
  };
}

Rows batch_rows() {
  using B = BatchParameters;
  return {
      number_or({"batch.global", "sequences", "Sequences of one optimiser step, over all ranks", "required",
                 "a multiple of batch.micro x grid.dp"},
                Field{&P::batch, &B::global}, {1}, 0, ""),
      number({"batch.micro", "sequences", "Sequences a rank computes at once; the rest is accumulated"},
             Field{&P::batch, &B::micro}, {1}),
  };
}

Rows precision_rows() {
  using R = PrecisionParameters;
  const auto words = [](std::initializer_list<std::string> list) {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const std::string& each : list) pairs.emplace_back(each, each);
    return pairs;
  };
  return {
      choice<R, std::string>(
          {"precision.format", "", "FP8 formats: hybrid is E4M3 forward and E5M2 for gradients"},
          {&P::precision, &R::format}, words({"hybrid", "e4m3"})),
      number({"precision.margin", "powers of two",
              "Head-room of a scale: scale = format max x 2^-margin / amax"},
             Field{&P::precision, &R::margin}, {0, 16}),
      number({"precision.amax_history", "steps", "Steps a delayed scale looks back"},
             Field{&P::precision, &R::amax_history}, {1, 4096}),
      choice<R, std::string>({"precision.amax_algorithm", "", "What of the history becomes the scale"},
                             {&P::precision, &R::amax_algorithm}, words({"max", "most_recent", "frozen"})),
      choice<R, std::string>({"precision.head", "", "Precision of the head's GEMMs"},
                             {&P::precision, &R::head}, words({"bf16", "fp8"})),
      list<R, std::string>({"precision.exclude", "globs by comma", "Modules that stay in high precision",
                            "empty", "globs of module names, each of which must match something"},
                           {&P::precision, &R::exclude}, parse_list, format_texts),
      number({"precision.high_precision_first", "layers", "First layers that stay in high precision", "",
              "first + last <= model.layers"},
             Field{&P::precision, &R::high_precision_first}, {0}),
      number({"precision.high_precision_last", "layers", "Last layers that stay in high precision", "",
              "first + last <= model.layers"},
             Field{&P::precision, &R::high_precision_last}, {0}),
      choice<R, std::string>(
          {"precision.fallback", "", "Modules whose sizes FP8 products cannot have: refused, or left in bf16"},
          {&P::precision, &R::fallback}, words({"refuse", "bf16"})),
  };
}

Rows optimizer_rows() {
  using O = OptimizerParameters;
  const Range<double> beta{.least = 0, .most = 1, .below_most = true};
  return {
      number({"optimizer.learning_rate", "per step", "Rate at the end of the warm-up"},
             Field{&P::optimizer, &O::learning_rate}, {0}),
      number_or({"optimizer.min_learning_rate", "per step", "Rate from decay_steps on", "0.1 learning_rate",
                 "<= learning_rate"},
                Field{&P::optimizer, &O::min_learning_rate}, {0}, -1, ""),
      number({"optimizer.warmup", "steps", "Steps of linear growth from 0", "", "<= decay_steps"},
             Field{&P::optimizer, &O::warmup}, {0}),
      choice<O, Decay>({"optimizer.decay", "", "Shape of the way from the rate to the minimum"},
                       {&P::optimizer, &O::decay},
                       {{"cosine", Decay::cosine}, {"linear", Decay::linear}, {"constant", Decay::constant}}),
      number_or({"optimizer.decay_steps", "steps", "Step at which the minimum is reached", "run.steps"},
                Field{&P::optimizer, &O::decay_steps}, {1}, 0, ""),
      number({"optimizer.beta1", "", "Decay of the first moment"}, Field{&P::optimizer, &O::beta1}, beta),
      number({"optimizer.beta2", "", "Decay of the second moment"}, Field{&P::optimizer, &O::beta2}, beta),
      number({"optimizer.epsilon", "", "Added outside the root"}, Field{&P::optimizer, &O::epsilon}, {0}),
      number({"optimizer.weight_decay", "", "Decoupled, on 2-D tensors only"},
             Field{&P::optimizer, &O::weight_decay}, {0}),
      number({"optimizer.clip", "L2 norm", "Gradients above this norm are scaled down to it; 0 off"},
             Field{&P::optimizer, &O::clip}, {0}),
  };
}

Rows data_rows() {
  using D = DataParameters;
  return {
      list<D, std::string>({"data.train", "files by comma", "Training data", "required", "readable files"},
                           {&P::data, &D::train}, parse_list, format_texts),
      list<D, std::string>(
          {"data.validation", "files by comma", "Validation data", "none", "none, readable files"},
          {&P::data, &D::validation}, parse_files_or_none, format_texts),
      choice<D, std::string>(
          {"data.format", "", "auto: by the file's header, else text"}, {&P::data, &D::format},
          {{"auto", "auto"}, {"text", "text"}, {"hdf5", "hdf5"}, {"megatron", "megatron"}, {"llmc", "llmc"}}),
      on_off({"data.repeat", "", "Pass over the data again, saying so; off: too short a file is refused"},
             Field{&P::data, &D::repeat}),
      number({"data.validate_every", "steps", "Steps between validations, and one after the last; 0 never"},
             Field{&P::data, &D::validate_every}, {0}),
      number({"data.validate_batches", "global batches",
              "Length of a validation, always the same first ones; 0 the whole file"},
             Field{&P::data, &D::validate_batches}, {0}),
  };
}

Rows parallel_rows() {
  using R = ParallelParameters;
  return {
      on_off({"parallel.sequence_parallel", "", "Split norms and residuals over grid.tp by tokens"},
             Field{&P::parallel, &R::sequence_parallel}),
      on_off({"parallel.overlap", "", "Communicate while computing"}, Field{&P::parallel, &R::overlap}),
      choice<R, ScheduleKind>({"parallel.schedule", "", "Order of micro-batches in the pipeline"},
                              {&P::parallel, &R::schedule},
                              {{"1f1b", ScheduleKind::one_f_one_b},
                               {"interleaved", ScheduleKind::interleaved},
                               {"gpipe", ScheduleKind::gpipe}}),
      list<R, std::int64_t>(
          {"parallel.stage_layers", "layers by comma", "Layers of each chunk", "empty (balanced by cost)",
           "pp x virtual_stages entries >= 1, sum = model.layers"},
          {&P::parallel, &R::stage_layers}, parse_counts, format_numbers),
      choice<R, Recompute>(
          {"parallel.recompute", "", "Activations computed again in the backward pass"},
          {&P::parallel, &R::recompute},
          {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}}),
      number({"parallel.bucket", "MiB", "Gradients reduced together"}, Field{&P::parallel, &R::bucket_mib},
             {.least = 0, .above_least = true}),
  };
}

Rows rest_rows() {
  using C = CheckpointParameters;
  using T = TraceParameters;
  using E = EngineParameters;
  using X = ExampleParameters;
  const std::string steps = "numbers and ranges as 1-3,10, each >= 1";
  return {
      word({"checkpoint.directory", "folder", "Where checkpoints go; probed at start", "<output>/checkpoints",
            "any path"},
           Field{&P::checkpoint, &C::directory}, any_text),
      number(
          {"checkpoint.every", "steps", "Steps between saves; 0 off; one always at the end and at exit 75"},
          Field{&P::checkpoint, &C::every}, {0}),
      number({"checkpoint.every_minutes", "minutes", "Time between saves; 0 off"},
             Field{&P::checkpoint, &C::every_minutes}, {0}),
      number({"checkpoint.keep", "files", "Newest checkpoints that stay; 0 keeps all"},
             Field{&P::checkpoint, &C::keep}, {0}),
      on_off({"checkpoint.async", "",
              "Save in the background; in this version saves are synchronous and the key has no effect yet"},
             Field{&P::checkpoint, &C::async}),
      list<T, std::int64_t>({"trace.steps", "steps", "Steps whose timeline is written", "empty", steps},
                            {&P::trace, &T::steps}, parse_steps, format_steps),
      list<T, std::int64_t>({"trace.gradients", "steps", "Steps whose gradients are written", "empty", steps},
                            {&P::trace, &T::gradients}, parse_steps, format_steps),
      on_off({"engine.graphs", "", "Capture the step as device graphs; no effect on cpu"},
             Field{&P::engine, &E::graphs}),
      number_or(
          {"engine.threads", "threads a rank", "Threads that compute", "auto (node's cores / its ranks)"},
          Field{&P::engine, &E::threads}, {1, 1024}, 0, "auto"),
      choice<X, ExamplePattern>(
          {"example.pattern", "",
           "Runs an all-gather beside a linear in place of the model: a linear that does not read it, a "
           "wait at once, or a linear that reads it",
           "", "not none: grid.dp, pp, cp = 1, grid.tp >= 2, and data.train is not needed"},
          {&P::example, &X::pattern},
          {{"none", ExamplePattern::none},
           {"independent", ExamplePattern::independent},
           {"wait_at_once", ExamplePattern::wait_at_once},
           {"dependent", ExamplePattern::dependent}}),
  };
}

}  // namespace

const std::vector<ParameterInfo>& parameter_table() {
  static const Rows table = [] {
    Rows rows;
    for (Rows (*part)() : {run_rows, grid_rows, backend_rows, model_rows, batch_rows, precision_rows,
                           optimizer_rows, data_rows, parallel_rows, rest_rows})
      for (ParameterInfo& info : part()) rows.push_back(std::move(info));
    return rows;
  }();
  return table;
}

}  // namespace octachoron
