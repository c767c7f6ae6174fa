#include "core/train/metrics.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "core/base/error.h"

namespace octachoron {

namespace {

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return {digits, end};
}

class JsonLine {
 public:
  JsonLine& add(const char* key, const std::string& value) {
    line_ += (line_.empty() ? "{\"" : ",\"") + std::string(key) + "\":" + value;
    return *this;
  }
  JsonLine& add(const char* key, double value) { return add(key, number(value)); }
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
  line.nulls({"compute_ms", "comm_ms", "overlap_ms", "exposed_ms", "idle_ms"});
  line.add("exposed_ms_by_axis", std::string(R"({"tp":null,"cp":null,"pp":null,"dp":null,"mixed":null})"));
  line.nulls({"stall_ms", "saturated", "flushed", "nonfinite", "amax_max", "calibrated"});
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
  if (metrics.validation_loss) result += text("  validation ", *metrics.validation_loss);
  return result;
}

MetricsFile::MetricsFile(const std::string& folder, std::int64_t resumed_step) {
  namespace fs = std::filesystem;
  const fs::path path = fs::path(folder) / "metrics.jsonl";
  std::vector<std::string> kept, moved;
  {
    std::ifstream old(path);
    for (std::string line; std::getline(old, line);)
      (step_of_line(line) > resumed_step ? moved : kept).push_back(line);
  }
  if (!moved.empty()) {
    int n = 1;
    while (fs::exists(fs::path(folder) / text("metrics.", n, ".jsonl"))) ++n;
    std::ofstream aside(fs::path(folder) / text("metrics.", n, ".jsonl"));
    for (const std::string& line : moved) aside << line << '\n';
    const fs::path rewritten = path.string() + ".tmp";
    std::ofstream(rewritten) << [&] {
      std::string all;
      for (const std::string& line : kept) all += line + '\n';
      return all;
    }();
    fs::rename(rewritten, path);
  }
  file_.open(path, std::ios::app);
  if (!file_)
    fail(ExitStatus::data, "cannot write '", path.string(), "'; make the folder writable or set run.output");
}

void MetricsFile::write(const StepMetrics& metrics) {
  file_ << format_metrics(metrics) << std::endl;
}

double training_flops_per_token(std::int64_t matrix_weights, std::int64_t layers, std::int64_t sequence,
                                std::int64_t attention_columns) {
  return 6.0 * double(matrix_weights) + 6.0 * double(layers) * double(sequence) * double(attention_columns);
}

}  // namespace octachoron
