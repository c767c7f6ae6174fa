#include "core/train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/trace/collective_table.h"

namespace octachoron {

namespace fs = std::filesystem;

namespace {

class JsonLine {
 public:
  JsonLine& add(const char* key, const std::string& value) {
    line_ += (line_.empty() ? "{\"" : ",\"") + std::string(key) + "\":" + value;
    return *this;
  }
  JsonLine& add(const char* key, double value) { return add(key, json_number(value)); }
  JsonLine& add(const char* key, std::int64_t value) { return add(key, std::to_string(value)); }
  JsonLine& nulls(std::initializer_list<const char*> keys) {
    for (const char* key : keys) add(key, std::string("null"));
    return *this;
  }
  std::string end() const { return line_ + "}"; }

 private:
  std::string line_;
};

std::int64_t step_of_line(const std::string& line) {
  const std::string key = "\"step\":";
  const std::size_t at = line.find(key);
  std::int64_t step = -1;
  if (at != std::string::npos)
    std::from_chars(line.data() + at + key.size(), line.data() + line.size(), step);
  return step;
}

[[noreturn]] void refuse(const fs::path& path) {
  fail(ExitStatus::data, "'", path.string(), "' cannot be written (", std::strerror(errno),
       "); make the folder writable or set run.output");
}

void write_file(const fs::path& path, const std::string& content) {
  std::ofstream file(path);
  if (!(file << content << std::flush)) refuse(path);
}

// A line without its end, or that is no object, is what a killed run left.
void split_lines(const fs::path& path, std::int64_t resumed_step, std::string& kept, std::string& moved) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const bool whole = !file.eof() && line.starts_with('{') && line.ends_with('}');
    (whole && step_of_line(line) <= resumed_step ? kept : moved) += line + "\n";
  }
}

void add_intervals(JsonLine& line, const std::optional<Accounting>& seen) {
  if (seen) {
    line.add("compute_ms", seen->compute).add("comm_ms", seen->comm).add("overlap_ms", seen->overlap);
    line.add("exposed_ms", seen->exposed).add("idle_ms", seen->idle);
    line.add("exposed_ms_by_axis", exposed_by_axis_json(*seen)).add("stall_ms", seen->stall);
  } else {
    line.nulls({"compute_ms", "comm_ms", "overlap_ms", "exposed_ms", "idle_ms"});
    line.add("exposed_ms_by_axis", std::string(R"({"tp":null,"cp":null,"pp":null,"dp":null,"mixed":null})"));
    line.nulls({"stall_ms"});
  }
}

}  // namespace

std::string format_metrics(const StepMetrics& m) {
  JsonLine line;
  line.add("step", m.step).add("time", m.time).add("loss", m.loss).add("grad_norm", m.grad_norm);
  line.add("learning_rate", m.learning_rate).add("samples", m.samples).add("tokens", m.tokens);
  line.add("step_ms", m.step_ms).add("tokens_per_s", m.tokens_per_s);
  line.add("model_tflops_per_device", m.model_tflops_per_device);
  if (m.peak_tflops > 0)
    line.add("mfu", m.model_tflops_per_device / m.peak_tflops).add("peak_tflops", m.peak_tflops);
  else
    line.nulls({"mfu", "peak_tflops"});
  add_intervals(line, m.intervals);
  if (const auto& seen = m.precision)
    line.add("saturated", std::int64_t(seen->saturated)).add("flushed", std::int64_t(seen->flushed))
        .add("nonfinite", std::int64_t(seen->nonfinite)).add("amax_max", double(seen->amax))
        .add("calibrated", std::int64_t(m.calibrated));
  else
    line.nulls({"saturated", "flushed", "nonfinite", "amax_max", "calibrated"});
  line.add("skipped", m.skipped);
  if (m.validation_loss) line.add("validation_loss", *m.validation_loss);
  return line.end();
}

std::string progress_line(const StepMetrics& metrics, std::int64_t steps) {
  char line[200];
  std::snprintf(line, sizeof line, "step %6lld/%lld  loss %.4f  norm %.3f  rate %.2e  %.1f ms  %.0f tokens/s",
                static_cast<long long>(metrics.step), static_cast<long long>(steps), metrics.loss,
                metrics.grad_norm, metrics.learning_rate, metrics.step_ms, metrics.tokens_per_s);
  std::string result = line;
  if (const auto& seen = metrics.intervals) {
    std::snprintf(line, sizeof line, "  compute %.1f  comm %.1f  overlap %.1f  idle %.1f ms", seen->compute,
                  seen->comm, seen->overlap, seen->idle);
    result += line;
  }
  if (const auto& seen = metrics.precision)
    result += text("  saturated ", seen->saturated, "  flushed ", seen->flushed, "  nonfinite ", seen->nonfinite);
  if (metrics.calibrated > 0) result += "  calibrated";
  if (metrics.validation_loss) result += text("  validation ", *metrics.validation_loss);
  return result;
}

void probe_metrics(const std::string& folder) {
  const fs::path path = fs::path(folder) / "metrics.jsonl";
  const int descriptor = ::open(path.c_str(), O_APPEND | O_WRONLY | O_CLOEXEC);
  if (descriptor < 0 && errno != ENOENT) refuse(path);
  if (descriptor >= 0) ::close(descriptor);
}

MetricsFile::MetricsFile(const std::string& folder, std::int64_t resumed_step) {
  const fs::path path = fs::path(folder) / "metrics.jsonl";
  std::error_code failed_folder;
  fs::create_directories(folder, failed_folder);  // what fails here fails below
  std::string kept, moved;
  split_lines(path, resumed_step, kept, moved);
  if (!moved.empty()) {
    int n = 1;
    std::error_code ignored;
    while (fs::exists(fs::path(folder) / text("metrics.", n, ".jsonl"), ignored)) ++n;
    write_file(fs::path(folder) / text("metrics.", n, ".jsonl"), moved);
    const fs::path rewritten = path.string() + ".tmp";
    write_file(rewritten, kept);
    std::error_code failed;
    fs::rename(rewritten, path, failed);
    if (failed) refuse(path);
  }
  descriptor_ = ::open(path.c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor_ < 0) refuse(path);
}

MetricsFile::~MetricsFile() {
  ::close(descriptor_);
}

std::string MetricsFile::write(const StepMetrics& metrics) {
  const std::string line = format_metrics(metrics) + "\n";
  const off_t before = ::lseek(descriptor_, 0, SEEK_END);
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t count = ::write(descriptor_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    done += std::size_t(count);
  }
  if (done == line.size()) return "";
  const std::string reason = std::strerror(errno);
  if (::ftruncate(descriptor_, before) != 0) return reason + ", and a part of a line remains";
  return reason;
}

double training_flops_per_token(std::int64_t matrix_weights, std::int64_t layers, std::int64_t sequence,
                                std::int64_t attention_columns) {
  return 6.0 * double(matrix_weights) + 6.0 * double(layers) * double(sequence) * double(attention_columns);
}

}  // namespace octachoron
