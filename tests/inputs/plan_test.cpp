/// Every file of inputs/ can be planned as it stands, and is the model that it says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;

/// Tables of tokens and positions; layers of two norms and linears 3h, h, 4h, h wide, all with biases; a last
/// norm.
std::int64_t gpt2(std::int64_t vocab, std::int64_t sequence, std::int64_t layers, std::int64_t h) {
  const std::int64_t attention = h * 3 * h + 3 * h + h * h + h;
  const std::int64_t mlp = h * 4 * h + 4 * h + 4 * h * h + h;
  return vocab * h + sequence * h + layers * (2 * h + attention + 2 * h + mlp) + 2 * h;
}

/// \param tables 1: the head reads the token table; 2: it has its own
std::int64_t llama(std::int64_t vocab, int tables, std::int64_t layers, std::int64_t h, std::int64_t kv_width,
                   std::int64_t ffn) {
  const std::int64_t attention = h * h + 2 * h * kv_width + h * h;
  return tables * vocab * h + layers * (h + attention + h + 3 * h * ffn) + h;
}

std::map<std::string, std::int64_t> counts() {
  return {
      {"demo.ini", gpt2(256, 128, 4, 128)},
      {"gpt2-124m.ini", gpt2(50257, 1024, 12, 768)},
      {"gpu-gpt2-124m.ini", gpt2(50304, 1024, 12, 768)},
      {"gpu-llama-8b.ini", llama(128256, 2, 32, 4096, 8 * 128, 14336)},
      {"lab.ini", gpt2(256, 128, 2, 256)},
      {"llama-1b.ini", llama(128256, 1, 16, 2048, 8 * 64, 8192)},
      {"llama-8b.ini", llama(128256, 2, 32, 4096, 8 * 128, 14336)},
      {"precision-gap.ini", gpt2(256, 128, 4, 144)},
  };
}

/// What the files say that they fit, less what CUDA and its libraries take of it.
constexpr double kGpuBytes = 80e9 - 4e9;

struct Result {
  int status = -1;
  std::string output;
};

bool is_built(const std::string& plugin) {
  return fs::exists(OCTACHORON_BINARY_DIR "/lib/octachoron/" + plugin + ".so");
}
bool can_plan_gpus() {
  return is_built("device-cuda") && is_built("comm-nccl");
}

/// Files for GPUs stand for the CPU where the plugins that they name are not built.
Result plan(const fs::path& file) {
  const bool elsewhere = file.filename().string().starts_with("gpu-") && !can_plan_gpus();
  const std::string command = OCTACHORON_BINARY_DIR "/bin/octachoron plan '" + file.string() + "'" +
                              (elsewhere ? " --set backend.device=cpu --set backend.comm=mpi" : "") + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  Result result;
  char text[4096];
  while (std::fgets(text, sizeof text, pipe)) result.output += text;
  result.status = pclose(pipe);
  return result;
}

double gpu_bytes(const std::string& output) {
  const std::string before = "arena, on the device, ";
  const std::size_t at = output.find(before);
  double number = 0;
  char unit[4] = "";
  if (at == std::string::npos ||
      std::sscanf(output.c_str() + at + before.size(), "%lf %3s", &number, unit) != 2)
    return -1;
  return std::string(unit) == "GiB" ? number * (1 << 30) : -1;
}

TEST(Inputs, PublishedSizesAreTheFormulas) {
  EXPECT_EQ(counts()["gpt2-124m.ini"], 124439808);
  EXPECT_EQ(counts()["llama-1b.ini"], 1235814400);
  EXPECT_EQ(counts()["llama-8b.ini"], 8030261248);
}

TEST(Inputs, EveryFileIsPlanned) {
  const auto expected = counts();
  for (const auto& entry : fs::directory_iterator(OCTACHORON_SOURCE_DIR "/inputs")) {
    if (entry.path().extension() != ".ini") continue;
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    if (name.starts_with("overlap-")) continue;  // no model: see below
    ASSERT_TRUE(expected.contains(name)) << "count the parameters of this file by hand, in this test";
    const Result result = plan(entry.path());
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_NE(result.output.find("\nverified: "), std::string::npos) << result.output;
    const std::string line = "\nparameters: " + std::to_string(expected.at(name)) + ",";
    EXPECT_NE(result.output.find(line), std::string::npos) << "not" << line << "\n" << result.output;
    if (!name.starts_with("gpu-") || !can_plan_gpus()) continue;
    EXPECT_GT(gpu_bytes(result.output), 0) << result.output;
    EXPECT_LT(gpu_bytes(result.output), kGpuBytes) << result.output;
  }
}

std::string content(const std::string& name) {
  std::ifstream file(OCTACHORON_SOURCE_DIR "/inputs/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Inputs, ThePatternsOfOverlapDifferInOneLineAndArePlannedApart) {
  const std::map<std::string, std::string> windows = {
      {"independent", "'second_linear' may run beside it"},
      {"wait_at_once", "'second_linear' behind the wait would be independent"},
      {"dependent", "nothing is independent before 'second_linear'"},
  };
  std::string common;
  for (const auto& [pattern, window] : windows) {
    std::string file = "overlap-" + pattern + ".ini";
    std::replace(file.begin(), file.end(), '_', '-');
    std::string text = content(file);
    const std::string line = "\npattern = " + pattern + "\n";
    ASSERT_NE(text.find(line), std::string::npos) << file;
    text.erase(text.find(line), line.size());
    if (common.empty()) common = text;
    EXPECT_EQ(text, common) << file;
    const Result result = plan(OCTACHORON_SOURCE_DIR "/inputs/" + file);
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_NE(result.output.find("\nverified: "), std::string::npos) << result.output;
    EXPECT_NE(result.output.find(window), std::string::npos) << result.output;
  }
}

}  // namespace
