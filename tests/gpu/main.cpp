/// gpu_device [--timing | --no-timing] [GoogleTest options]: tests a device against another one and against
/// host code, then prints a table of rates. OCTACHORON_DEVICE_PLUGIN and OCTACHORON_REFERENCE_PLUGIN name the
/// two plugins. Each test prints one line with its time, and none may take longer than a minute.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "tests/conformance/device_rig.h"
#include "tests/gpu/timing.h"

namespace {

constexpr std::chrono::seconds kLimit(60);

/// A line for each test, and the end of the program where one takes too long: a kernel that waits for what
/// never comes cannot be called back, but the driver ends it with its process.
class Reporter : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& test) override {
    name_ = std::string(test.test_suite_name()) + "." + test.name();
    running_ = true;
    watch_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      if (ended_.wait_for(lock, kLimit, [this] { return !running_; })) return;
      std::printf("%-44s did not end within %d s\n", name_.c_str(), int(kLimit.count()));
      std::fflush(stdout);
      std::_Exit(1);
    });
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    {
      const std::lock_guard lock(mutex_);
      running_ = false;
    }
    ended_.notify_all();
    watch_.join();
    const testing::TestResult& result = *test.result();
    std::printf("%-44s %8.1f s  %s\n", name_.c_str(), double(result.elapsed_time()) * 1e-3,
                result.Skipped()  ? "skipped"
                : result.Passed() ? "passed"
                                  : "FAILED");
    std::fflush(stdout);
  }

 private:
  std::string name_;
  bool running_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::thread watch_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bool tests = true, timing = true;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--timing") == 0) tests = false;
    if (std::strcmp(argv[i], "--no-timing") == 0) timing = false;
  }
  // A run of chosen tests is for them alone; so is that of the process that a test starts.
  if (GTEST_FLAG_GET(filter) != "*" || GTEST_FLAG_GET(list_tests)) timing = false;
  testing::UnitTest::GetInstance()->listeners().Append(new Reporter);  // owned by the library
  const int failed = tests ? RUN_ALL_TESTS() : 0;
  if (!timing) return failed;
  try {
    octachoron::gpu::print_timings(octachoron::gpu::Device(octachoron::conformance::plugin_under_test()));
  } catch (const std::exception& error) {
    std::printf("no timings: %s\n", error.what());
    return 1;
  }
  return failed;
}
