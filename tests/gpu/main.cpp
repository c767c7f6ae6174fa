/// gpu_device [--timing | --no-timing] [GoogleTest options]: tests a device against another one and against
/// host code, then prints a table of rates. OCTACHORON_DEVICE_PLUGIN and OCTACHORON_REFERENCE_PLUGIN name the
/// two plugins.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "tests/conformance/device_rig.h"
#include "tests/gpu/timing.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bool tests = true, timing = true;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--timing") == 0) tests = false;
    if (std::strcmp(argv[i], "--no-timing") == 0) timing = false;
  }
  // A run of chosen tests is for them alone; so is that of the process that a test starts.
  if (GTEST_FLAG_GET(filter) != "*" || GTEST_FLAG_GET(list_tests)) timing = false;
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
