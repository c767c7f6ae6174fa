/// cuDNN takes the graphs of attention and asks for no more workspace than was planned: asked here about an
/// H200, without one. Needs the library, not a GPU.
#include "plugins/device/cuda/cudnn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/device/cuda/attention_plan.h"

namespace octachoron::cuda {
namespace {

constexpr const char* kH200 =
    R"({"cudaDeviceId":0,"deviceName":"NVIDIA H200","deviceVer":900,"driverVer":13000,
"isTccDriver":0,"l2CacheSize":62914560,"maxBlockSize":[1024,1024,64],"maxGridSize":[2147483647,65535,65535],
"maxCtasPerSM":32,"maxRegistersPerSM":65536,"maxSharedMemoryPerBlock":49152,
"maxSharedMemoryPerBlockOptin":232448,
"reservedSharedMemoryPerBlock":1024,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,
"memClockRateKHz":3201000,
"multiProcessorCount":132,"pciDeviceId":0,"regsPerBlock":65536,"smClockRateKHz":1980000,"supportCoopLaunch":1,
"totalGlobalMem":150110011392,"warpSize":32})";

class CudnnGraphs : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    cudnn_ = open_cudnn_for(kH200, 90, &why);
    if (cudnn_ == nullptr) GTEST_SKIP() << "no cuDNN here: " << why;
  }
  std::unique_ptr<Cudnn> cudnn_;
};

CudnnAttentionShape packed(bool backward, std::int64_t sequences, std::int64_t length, std::int64_t heads,
                           std::int64_t key_heads, std::int64_t size) {
  const std::int64_t wide = (heads + 2 * key_heads) * size, narrow = heads * size;
  return {backward, sequences, heads, key_heads, length, size, wide, narrow, narrow, wide, heads, 0.1f};
}

AttentionPlan plan_of(const CudnnAttentionShape& s) {
  oct_operation d{};
  d.struct_size = sizeof d;
  d.op = s.backward ? OCT_ATTENTION_BACKWARD : OCT_ATTENTION;
  d.operands = s.backward ? 5 : 3;
  const std::int64_t columns[] = {s.qkv_pitch, s.out_pitch, s.heads, s.dout_pitch, s.dqkv_pitch};
  for (int k = 0; k < d.operands; ++k)
    d.operand[k] = {k == 2 ? OCT_F32 : OCT_BF16, 0, s.sequences * s.length, columns[k], columns[k]};
  d.i[0] = s.length, d.i[1] = s.heads, d.i[2] = s.key_heads, d.i[3] = s.size;
  return plan_attention(d, true);
}

TEST_F(CudnnGraphs, FitTheWorkspaceThatIsPlanned) {
  for (const bool backward : {false, true}) {
    for (CudnnAttentionShape s :
         {packed(backward, 4, 1024, 12, 12, 64), packed(backward, 2, 4096, 32, 8, 128),
          packed(backward, 3, 37, 3, 1, 24), packed(backward, 1, 2, 1, 1, 8)}) {
      SCOPED_TRACE(testing::PrintToString(s.length) + (backward ? " backward" : " forward"));
      const AttentionPlan plan = plan_of(s);
      ASSERT_TRUE(plan.uses_cudnn);
      s.heads = s.heads / s.key_heads * plan.key_heads;
      s.key_heads = plan.key_heads;
      s.sequences = plan.sequences;
      const std::int64_t bytes = cudnn_->build(s)->workspace_bytes();
      EXPECT_LE(bytes, plan.library_bytes);
      EXPECT_GE(bytes + bytes / 100 + 8192, plan.library_bytes) << "much more is planned than needed";
    }
  }
}

TEST_F(CudnnGraphs, ARefusalHasCudnnsReason) {
  CudnnAttentionShape odd = packed(false, 1, 128, 2, 2, 64);
  odd.qkv_pitch += 4;
  try {
    cudnn_->build(odd);
    ADD_FAILURE() << "was taken";
  } catch (const std::exception& refusal) {
    EXPECT_THAT(refusal.what(), testing::HasSubstr("stride"));
  }
}

TEST_F(CudnnGraphs, VersionIsNamed) {
  EXPECT_THAT(cudnn_->version(), testing::StartsWith("cuDNN "));
}

}  // namespace
}  // namespace octachoron::cuda
