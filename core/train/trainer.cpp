#include "core/train/trainer.h"

#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <sstream>
#include <utility>

#include "core/checkpoint/save.h"
#include "core/config/parameter_file.h"
#include "core/data/batch_reader.h"
#include "core/data/sample_order.h"
#include "core/parallel/together.h"
#include "core/report/tables.h"
#include "core/trace/step_trace.h"
#include "core/train/agreed_programs.h"
#include "core/train/algorithm_choices.h"
#include "core/train/evaluate.h"
#include "core/train/health.h"
#include "core/train/learning_rate.h"
#include "core/train/run_state.h"
#include "core/train/start_text.h"
#include "core/train/stop_policy.h"

namespace octachoron {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kPatience_s = 60;  // a step may take longer, but then its user wants to know

double since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

class Run {
 public:
  Run(const Parameters& parameters, const World& world, const RunOptions& options)
      : parameters_(parameters),
        world_(world),
        options_(options),
        policy_(parameters, world, options.stop_signal, options.agreement_limit_s),
        grid_(grid_of(parameters)),
        shape_{parameters.batch.global, parameters.batch.micro, parameters.grid.dp,
               grid_.coordinate(world.rank())[int(Axis::dp)]},
        data_(together(world, [&] { return open(parameters.data.train); })),
        validation_(together(world, [&] { return open(parameters.data.validation); })),
        order_(data_->samples(), parameters.run.seed),
        reader_(*data_, order_, shape_),
        start_(find_starting_point(parameters, world)),
        state_(start_.state),
        passes_(describe_passes(*data_, state_.samples,
                                std::max<std::int64_t>(0, parameters.run.steps - state_.step), parameters.batch.global,
                                parameters.data.repeat)),
        backend_(parameters, world, parameters.run.output),
        tracer_(world, grid_,
                network_facts(backend_),
                [this] { return session_->device_clock(); }) {
    agree_on_data(*data_, validation_.get(), world);
    probe_output();
    restore_choices(parameters.run.output, start_.tuning, world);
    session_ = std::make_unique<TrainingSession>(parameters, world, backend_);  // the first large allocation
    health_ = std::make_unique<HealthWatch>(*session_);
    session_->set_watchdog([this](const std::string& waits, double s) { warn_of_waiting(waits, s); }, kPatience_s);
  }

  ExitStatus run() {
    print_start();
    start_ = load_starting_point(start_, parameters_, world_, *session_);
    state_ = start_.state;
    if (const std::string now = versions_of(backend_.device()); !start_.versions.empty() && start_.versions != now)
      start_.lines.push_back(text("made with ", start_.versions, "; now ", now, ": bits may differ"));
    for (const auto* lines : {&start_.notes, &start_.lines})
      for (const std::string& line : *lines) say(line);
    open_metrics();
    if (state_.step > 0 && state_.step >= parameters_.run.steps)
      say("nothing to do: run.steps = ", parameters_.run.steps, ", step ", state_.step, " is done");
    int skipped_in_a_row = 0;
    while (state_.step < parameters_.run.steps) {
      StepMetrics metrics = train_step();
      save_gradients();  // before validation, which uses the same memory
      skipped_in_a_row = finite_ ? 0 : skipped_in_a_row + 1;
      const bool stop_in_validation = validate_if_due(metrics);
      log(metrics);
      if (skipped_in_a_row > parameters_.run.max_skipped) return diverged(skipped_in_a_row);
      const Decision decision = policy_.decide(state_.step);
      if (state_.step == parameters_.run.steps) break;  // done is done, whoever asks to stop
      if (decision.stop || stop_in_validation) return say_stop(), save() ? ExitStatus::stopped : ExitStatus::data;
      if (decision.save) save();
    }
    if (saved_step_ == state_.step || (state_.step == start_.state.step && !start_.path.empty()))
      return ExitStatus::done;
    return save() ? ExitStatus::done : ExitStatus::data;
  }

  void report_memory() const {
    const std::int64_t most = world_.maximum(peak_resident_bytes());
    say("memory of a rank, measured: ", size_text(double(most)), " at the peak of its process");
  }

  void abandon() { backend_.communicator().abort(); }

 private:
  template <class... Parts>
  void say(const Parts&... parts) const {
    if (world_.rank() == 0) std::printf("%s\n", text(parts...).c_str()), std::fflush(stdout);
  }
  template <class... Parts>
  void warn(const Parts&... parts) const {
    if (world_.rank() == 0) std::fprintf(stderr, "octachoron: %s\n", text(parts...).c_str());
  }

  std::unique_ptr<TokenData> open(const std::vector<std::string>& files) const {
    if (files.empty()) return nullptr;
    return std::make_unique<TokenData>(files, parameters_.data.format, parameters_.model.sequence,
                                       parameters_.model.vocab, ScanShare{world_.rank(), world_.size()});
  }

  void say_stop() const { say("stops on a signal or a time limit; the same command goes on after step ", state_.step); }
  void warn_of_waiting(const std::string& waits, double seconds) const {
    warn("a step has not ended for ", std::int64_t(seconds), " s (",
         waits.empty() ? "it computes, or waits for no peer" : waits,
         "); wait on, or end the job if a rank is gone");
  }

  // A run that could not save is refused before it takes memory, and one that is refused leaves no folder.
  void probe_output() const {
    probe_directory(world_.comm(), parameters_.run.output);
    probe_directory(world_.comm(), parameters_.checkpoint.directory);
    together(world_, [&] {
      if (world_.rank() == 0) probe_metrics(parameters_.run.output);
      return true;
    });
  }

  void open_metrics() {
    metrics_ = together(world_, [&] {
      return world_.rank() == 0 ? std::make_unique<MetricsFile>(parameters_.run.output, state_.step)
                                : nullptr;
    });
  }

  void print_start() {
    say(start_text(parameters_, grid_, world_.hosts(), backend_, *session_));
    say("training data: ", data_->describe(), "; ", passes_);
    if (validation_) say("validation data: ", validation_->describe());
  }

  StepMetrics train_step() {
    const Clock::time_point begin = Clock::now();
    reader_.read(state_.samples, batch_);
    if (state_.step + 1 < parameters_.run.steps) reader_.read_ahead(state_.samples + parameters_.batch.global);
    const std::int64_t step = state_.step + 1;
    const double rate = learning_rate(parameters_.optimizer, step);
    std::span<const OperationRecord> records;
    const std::int64_t update = state_.next_update();
    const StepResult result = options_.check     ? checked_step(rate)
                              : is_traced(step) ? session_->step_observed(batch_, rate, update, records)
                                                : session_->step(batch_, rate, update);
    reader_.rest();
    const double seconds = since(begin);
    std::optional<Accounting> intervals;
    if (!records.empty()) intervals = trace(records, step, seconds);
    policy_.note_step(seconds);
    finite_ = result.finite;
    if (!finite_) report_skipped(result, rate);
    if (batch_.global_valid_targets == 0) report_no_target();
    state_.step = step;
    state_.samples += parameters_.batch.global;
    state_.skipped += finite_ ? 0 : 1;
    StepMetrics metrics = metrics_of(result, rate, intervals ? intervals->step / 1e3 : seconds);
    metrics.intervals = intervals;
    for (const std::string& alarm : health_->note(step, metrics.loss)) warn(alarm);
    return metrics;
  }

  // A line on the console is due: its step is traced, for the line has the accounting.
  bool is_logged(std::int64_t step) const {
    return step == start_.state.step + 1 || step == parameters_.run.steps ||
           step % parameters_.run.log_every == 0 || validates(step);
  }
  bool is_written(std::int64_t step) const {
    const auto& steps = parameters_.trace.steps;
    return std::binary_search(steps.begin(), steps.end(), step);
  }
  bool is_traced(std::int64_t step) const { return is_logged(step) || is_written(step); }

  Accounting trace(std::span<const OperationRecord> records, std::int64_t step, double seconds) {
    const Timeline timeline = tracer_.timeline(session_->training(), records, seconds);
    if (is_written(step)) {
      const auto written = tracer_.write(parameters_.run.output + "/trace", step, timeline);
      if (written.problem.empty())
        say("timeline of step ", step, " on rank 0, all ranks in '", written.path, "':\n", written.text);
      else
        warn("the timeline of step ", step, " is not written (", written.problem,
             "); free space or set run.output, the run goes on without");
    }
    return tracer_.mean(timeline);
  }

  StepMetrics metrics_of(const StepResult& result, double rate, double seconds) const {
    const ModelParameters& model = parameters_.model;
    StepMetrics metrics;
    metrics.step = state_.step, metrics.samples = state_.samples, metrics.skipped = state_.skipped;
    metrics.tokens = state_.samples * model.sequence;
    metrics.time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    // The mean over no targets is no number; its gradient is zero.
    metrics.loss = batch_.global_valid_targets > 0 ? result.loss : std::numeric_limits<double>::quiet_NaN();
    metrics.grad_norm = result.grad_norm, metrics.learning_rate = rate;
    metrics.step_ms = seconds * 1e3;
    if (!session_->precision().empty()) metrics.precision = total(session_->precision_records());
    metrics.calibrated = result.calibrations;
    const double tokens = double(parameters_.batch.global * model.sequence);
    metrics.tokens_per_s = tokens / seconds;
    metrics.peak_tflops = session_->peak_flops() / 1e12;
    const std::int64_t matrices = matrix_weights(session_->programs().set, model.tie_embeddings);
    metrics.model_tflops_per_device =
        training_flops_per_token(matrices, model.layers, model.sequence, model.heads * model.head_dim) *
        tokens / seconds / double(grid_.size()) / 1e12;
    return metrics;
  }

  StepResult checked_step(double rate) {
    StepResult result;
    agree_on_origin(session_->step_checked(batch_, rate, state_.next_update(), result));
    return result;
  }

  // The state was left as it is, so the same step can be run again to find where it began.
  void report_skipped(const StepResult& result, double rate) {
    warn("step ", state_.step + 1, " is skipped (loss ", result.loss, ", gradient norm ", result.grad_norm,
         "); nothing is to be done, weights and moments keep their values");
    if (options_.check) return;
    StepResult again;
    agree_on_origin(session_->repeat_checked(batch_, rate, state_.next_update(), again));
    ensure(!again.finite, "step ", state_.step + 1, " was not finite, but is when run again: the device is not reliable");
  }

  void report_no_target() {
    if (!std::exchange(no_target_reported_, true))
      warn("step ", state_.step + 1,
           " has no target (the loss mask leaves out its whole batch); nothing is to be done, ",
           "its gradient is zero, its loss null in the metrics, and later ones are not reported");
  }

  // The earliest operation of all ranks speaks, and of those the lowest rank: what is not finite soon is so
  // everywhere.
  void agree_on_origin(const Origin& found) const {
    constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
    const std::int64_t mine = found.place < 0 ? kNever : found.place * world_.size() + world_.rank();
    const std::int64_t first = -world_.maximum(-mine);
    if (first != kNever && first == mine)
      std::fprintf(stderr,
                   "octachoron: step %lld first is not finite on rank %d (%s); look at what goes into it\n",
                   static_cast<long long>(state_.step + 1), world_.rank(), found.what.c_str());
  }

  bool validates(std::int64_t step) const {
    const std::int64_t every = parameters_.data.validate_every;
    return validation_ && every > 0 && (step % every == 0 || step == parameters_.run.steps);
  }

  // \return whether somebody asked for a stop meanwhile
  bool validate_if_due(StepMetrics& metrics) {
    if (!validates(state_.step)) return false;
    const Evaluation evaluation =
        evaluate_batches(*session_, *validation_, shape_, parameters_.data.validate_batches,
                         [this] { return policy_.stop_asked(); });
    if (!evaluation.stopped) metrics.validation_loss = evaluation.loss;
    return evaluation.stopped;
  }

  void log(const StepMetrics& metrics) {
    if (metrics_) write_metrics(metrics);
    if (is_logged(state_.step)) say_progress(metrics);
  }

  void say_progress(const StepMetrics& metrics) const {
    say(progress_line(metrics, parameters_.run.steps));
    for (const std::string& line : health_->worst()) say("    ", line);
  }

  // The run is worth more than its log: it goes on, and says so once.
  void write_metrics(const StepMetrics& metrics) {
    const std::string problem = metrics_->write(metrics);
    if (!problem.empty() && metrics_problem_.empty())
      warn("the metrics of step ", metrics.step, " are not written (", problem,
           "); free space, the run goes on without");
    metrics_problem_ = problem;
  }

  void save_gradients() {
    const auto& steps = parameters_.trace.gradients;
    if (!std::binary_search(steps.begin(), steps.end(), state_.step)) return;
    const std::string folder = parameters_.run.output + "/gradients";
    char file[32];
    std::snprintf(file, sizeof file, "/step-%08lld.h5", static_cast<long long>(state_.step));
    try {
      save_tensors(world_.comm(), folder + file, header_of(state_, parameters_, backend_.device()),
                   session_->gradients());
    } catch (const Error& error) {
      if (error.status() != ExitStatus::data) throw;
      warn(error.what());
    }
    session_->release_copies();
  }

  bool save() {
    const bool saved = write_checkpoint();
    session_->release_copies();
    return saved;
  }

  bool write_checkpoint() {
    const Clock::time_point begin = Clock::now();
    try {
      std::string warnings;
      const std::int64_t keep = parameters_.checkpoint.keep;
      const auto tensors = together(world_, [&] { return session_->state(); });  // copies may find no memory
      const std::string path =
          save_checkpoint(world_.comm(), parameters_.checkpoint.directory,
                          header_of(state_, parameters_, backend_.device()), tensors, keep > 0 ? keep + start_.damaged : 0, &warnings);
      policy_.note_save(world_.maximum(since(begin)));
      std::istringstream lines(warnings);
      for (std::string line; std::getline(lines, line);) warn(line);
      say("saved '", path, "'");
      saved_step_ = state_.step;
      return true;
    } catch (const Error& error) {
      if (error.status() != ExitStatus::data) throw;
      policy_.note_save(since(begin));
      warn(error.what());
      return false;
    }
  }

  ExitStatus diverged(int skipped) const {
    warn("the run has diverged (", skipped,
         " steps in a row were not finite, run.max_skipped = ", parameters_.run.max_skipped,
         "); lower optimizer.learning_rate, or look for the origin with --check");
    return ExitStatus::diverged;
  }

  const Parameters& parameters_;
  const World& world_;
  RunOptions options_;
  StopPolicy policy_;  // before what takes time: the clock runs from here
  ProcessGrid grid_;
  BatchShape shape_;
  std::unique_ptr<TokenData> data_, validation_;
  SampleOrder order_;
  BatchReader reader_;
  StartingPoint start_;
  RunState state_;
  std::string passes_;
  Backend backend_;
  std::unique_ptr<TrainingSession> session_;
  std::unique_ptr<HealthWatch> health_;
  StepTracer tracer_;
  std::unique_ptr<MetricsFile> metrics_;
  std::string metrics_problem_;  // of the last line
  RankBatch batch_;
  bool finite_ = true, no_target_reported_ = false;
  std::int64_t saved_step_ = -1;
};

}  // namespace

ExitStatus train(const Parameters& parameters, const World& world, const RunOptions& options) {
  agree_on_parameters(parameters, options.check, world);
  auto run = std::make_unique<Run>(parameters, world, options);
  try {
    const ExitStatus status = run->run();
    run->report_memory();
    return status;
  } catch (...) {
    // Transfers to and from peers may still be in flight: they are ended, and what they point to stays until the process
    // ends, which is next.
    run->abandon();
    (void)run.release();
    throw;
  }
}

}  // namespace octachoron
