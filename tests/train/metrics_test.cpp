// Lines of metrics.jsonl (contract, section 4).
#include "core/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace octachoron {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Strings = std::vector<std::string>;

// Numbers that a fixed number of digits would change, and a total beyond 2^53.
StepMetrics metrics() {
  StepMetrics m;
  m.step = 7;
  m.time = 1764450123.4567891;
  m.loss = 0.1 + 0.2;
  m.grad_norm = 1.0 / 3;
  m.learning_rate = 3e-4;
  m.samples = 56;
  m.tokens = 9007199254740993;
  m.step_ms = 12.25;
  m.tokens_per_s = 5e-324;
  m.model_tflops_per_device = 0.5;
  m.peak_tflops = 2;
  m.skipped = 1;
  return m;
}

// The text of a value; empty if the line has no such key.
std::string value(const std::string& line, const std::string& key) {
  const std::string quoted = "\"" + key + "\":";
  const std::size_t at = line.find(quoted);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + quoted.size();
  return line.substr(begin, line.find_first_of(",}", begin) - begin);
}

Strings keys(const std::string& line) {
  Strings found;
  for (std::size_t begin = line.find('"'); begin != std::string::npos;) {
    const std::size_t end = line.find('"', begin + 1);
    found.push_back(line.substr(begin + 1, end - begin - 1));
    begin = line.find('"', end + 1);
  }
  return found;
}

TEST(Metrics, KeysAreThoseOfTheContractInItsOrder) {
  Strings expected{"step",
                   "time",
                   "loss",
                   "grad_norm",
                   "learning_rate",
                   "samples",
                   "tokens",
                   "step_ms",
                   "tokens_per_s",
                   "model_tflops_per_device",
                   "mfu",
                   "peak_tflops",
                   "compute_ms",
                   "comm_ms",
                   "overlap_ms",
                   "exposed_ms",
                   "idle_ms",
                   "exposed_ms_by_axis",
                   "tp",
                   "cp",
                   "pp",
                   "dp",
                   "mixed",
                   "stall_ms",
                   "saturated",
                   "flushed",
                   "nonfinite",
                   "amax_max",
                   "calibrated",
                   "skipped"};
  StepMetrics m = metrics();
  EXPECT_EQ(keys(format_metrics(m)), expected);
  m.validation_loss = 2.5;
  expected.push_back("validation_loss");
  EXPECT_EQ(keys(format_metrics(m)), expected);
  EXPECT_EQ(value(format_metrics(m), "validation_loss"), "2.5");
}

TEST(Metrics, ALineIsOneObject) {
  const std::string line = format_metrics(metrics());
  EXPECT_EQ(line.front(), '{');
  EXPECT_EQ(line.back(), '}');
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_THAT(line,
              HasSubstr(R"("exposed_ms_by_axis":{"tp":null,"cp":null,"pp":null,"dp":null,"mixed":null})"));
}

TEST(Metrics, ATracedStepHasItsAccounting) {
  StepMetrics m = metrics();
  m.intervals = Accounting{.step = 12.25, .compute = 10, .comm = 4, .overlap = 3, .exposed = 1, .idle = 1.25,
                           .exposed_by_axis = {0.25, 0, 0.5, 0, 0.125}, .stall = 0.75};
  const std::string line = format_metrics(m);
  EXPECT_EQ(keys(line), keys(format_metrics(metrics())));
  EXPECT_THAT(
      line,
      HasSubstr(R"("compute_ms":10,"comm_ms":4,"overlap_ms":3,"exposed_ms":1,"idle_ms":1.25,)"
                R"("exposed_ms_by_axis":{"tp":0.25,"cp":0,"pp":0,"dp":0.5,"mixed":0.125},"stall_ms":0.75)"));
  EXPECT_THAT(progress_line(m, 10), HasSubstr("  compute 10.0  comm 4.0  overlap 3.0  idle 1.2 ms"));
  EXPECT_THAT(progress_line(metrics(), 10), testing::Not(HasSubstr("compute")));
}

TEST(Metrics, NumbersReadBackEqualAndAreShort) {
  const StepMetrics m = metrics();
  const std::string line = format_metrics(m);
  const auto read = [&](const char* key) { return std::strtod(value(line, key).c_str(), nullptr); };
  EXPECT_EQ(read("time"), m.time);
  EXPECT_EQ(read("loss"), m.loss);
  EXPECT_EQ(read("grad_norm"), m.grad_norm);
  EXPECT_EQ(read("tokens_per_s"), m.tokens_per_s);
  EXPECT_EQ(read("mfu"), 0.25);
  EXPECT_EQ(value(line, "loss"), "0.30000000000000004");
  EXPECT_EQ(value(line, "learning_rate"), "3e-04");
  EXPECT_EQ(value(line, "step_ms"), "12.25");
  EXPECT_EQ(value(line, "tokens"), "9007199254740993");
}

TEST(Metrics, WhatIsNotFiniteIsNull) {
  StepMetrics m = metrics();
  m.loss = std::numeric_limits<double>::quiet_NaN();
  m.grad_norm = std::numeric_limits<double>::infinity();
  m.learning_rate = -std::numeric_limits<double>::infinity();
  m.validation_loss = std::nan("");
  const std::string line = format_metrics(m);
  for (const char* key : {"loss", "grad_norm", "learning_rate", "validation_loss"})
    EXPECT_EQ(value(line, key), "null") << key;
}

TEST(Metrics, UtilisationIsOfThePeakThatStandsBesideIt) {  // J01: 21.2% would be of the sparse peak
  StepMetrics m = metrics();
  m.model_tflops_per_device = 420;
  m.peak_tflops = 989.5;
  EXPECT_NEAR(std::strtod(value(format_metrics(m), "mfu").c_str(), nullptr), 0.424, 0.0005);
  EXPECT_EQ(value(format_metrics(m), "peak_tflops"), "989.5");
}

TEST(Metrics, WithoutAKnownPeakThereIsNoMfu) {
  StepMetrics m = metrics();
  m.peak_tflops = 0;
  EXPECT_EQ(value(format_metrics(m), "mfu"), "null");
  EXPECT_EQ(value(format_metrics(m), "peak_tflops"), "null");
}

}  // namespace
}  // namespace octachoron
