// The built plugin where there is no GPU: it loads, says what it needs, and is refused with reasons.
#include <gmock/gmock.h>

#include "core/plugin/comm.h"

namespace octachoron {
namespace {

using testing::HasSubstr;

PluginLibrary plugin() {
  return {OCTACHORON_BINARY_DIR "/lib/octachoron/comm-nccl.so", OCT_COMM};
}

TEST(NcclPlugin, LoadsWithoutAGpuAndNamesItsLibrary) {
  EXPECT_STREQ(plugin().info().name, "nccl");
  EXPECT_THAT(plugin().info().build, HasSubstr("NCCL 2."));
}

TEST(NcclPlugin, WorksWithDeviceCudaOnly) {
  EXPECT_NO_THROW(require_device(plugin(), "cuda"));
  try {
    require_device(plugin(), "cpu");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::usage);
    EXPECT_THAT(error.what(), HasSubstr("backend.device = cuda"));
  }
}

}  // namespace
}  // namespace octachoron
