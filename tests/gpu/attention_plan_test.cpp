/// Which attention goes to cuDNN, in what parts and workspace: decided without a GPU.
#include "plugins/device/cuda/attention_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace octachoron::cuda {
namespace {

constexpr std::int64_t kGiB = std::int64_t(1) << 30;

struct Shape {
  std::int64_t sequences, length, heads, key_heads, size, gap = 0;
};

oct_operation describe(oct_op op, const Shape& s, oct_dtype type = OCT_BF16) {
  oct_operation d{};
  d.struct_size = sizeof d;
  d.op = op;
  const auto matrix = [&](oct_dtype t, std::int64_t columns, std::int64_t gap) {
    return oct_matrix{t, 0, s.sequences * s.length, columns, columns + gap};
  };
  const oct_matrix wide = matrix(type, (s.heads + 2 * s.key_heads) * s.size, s.gap),
                   narrow = matrix(type, s.heads * s.size, s.gap), lse = matrix(OCT_F32, s.heads, 0);
  const std::vector<oct_matrix> operands =
      op == OCT_ATTENTION ? std::vector{wide, narrow, lse} : std::vector{wide, narrow, lse, narrow, wide};
  d.operands = std::int32_t(operands.size());
  std::copy(operands.begin(), operands.end(), d.operand);
  d.i[0] = s.length, d.i[1] = s.heads, d.i[2] = s.key_heads, d.i[3] = s.size;
  return d;
}

bool is_taken(const Shape& s, oct_dtype type = OCT_BF16, bool has_cudnn = true) {
  const bool forward = plan_attention(describe(OCT_ATTENTION, s, type), has_cudnn).uses_cudnn;
  EXPECT_EQ(plan_attention(describe(OCT_ATTENTION_BACKWARD, s, type), has_cudnn).uses_cudnn, forward);
  return forward;
}

AttentionPlan gradient(const Shape& s) {
  return plan_attention(describe(OCT_ATTENTION_BACKWARD, s), true);
}

TEST(AttentionPlan, WhatCudnnTakes) {
  EXPECT_TRUE(is_taken({4, 1024, 12, 12, 64}));
  EXPECT_TRUE(is_taken({1, 4096, 32, 8, 128}));
  EXPECT_TRUE(is_taken({2, 1000, 16, 4, 80}));
  EXPECT_TRUE(is_taken({2, 37, 3, 1, 8, 8}));
}

TEST(AttentionPlan, WhatTheOwnKernelsTake) {
  EXPECT_FALSE(is_taken({4, 1024, 12, 12, 64}, OCT_BF16, false)) << "no cuDNN";
  EXPECT_FALSE(is_taken({4, 1024, 12, 12, 64}, OCT_F32));
  EXPECT_FALSE(is_taken({4, 1024, 12, 12, 60})) << "heads at odd addresses";
  EXPECT_FALSE(is_taken({4, 1024, 12, 12, 64, 4})) << "rows at odd addresses";
  EXPECT_FALSE(is_taken({4, 1024, 12, 12, 136})) << "large heads";
  EXPECT_FALSE(is_taken({64, 1, 12, 12, 64})) << "sequences of one token";
  EXPECT_FALSE(is_taken({0, 1024, 12, 12, 64})) << "no tokens";
}

/// The own kernels may take over what was planned for cuDNN.
TEST(AttentionPlan, WorkspaceOfTheOwnKernelsFitsIntoThatOfCudnn) {
  for (const Shape& s : {Shape{3, 37, 3, 1, 24}, Shape{4, 1024, 12, 12, 64}}) {
    for (const oct_op op : {OCT_ATTENTION, OCT_ATTENTION_BACKWARD}) {
      const AttentionPlan own = plan_attention(describe(op, s), false),
                          library = plan_attention(describe(op, s), true);
      EXPECT_EQ(own.bytes, op == OCT_ATTENTION ? 0 : 4 * s.sequences * s.length * s.heads);
      EXPECT_LE(own.bytes, library.library);
      EXPECT_EQ(library.library % 256, 0);
      EXPECT_EQ(library.bytes, library.library + library.library_bytes);
    }
  }
}

TEST(AttentionPlan, GradientsGoInParts) {
  const AttentionPlan small = gradient({16, 1024, 12, 12, 64});
  EXPECT_EQ(small.sequences, 16);
  EXPECT_EQ(small.key_heads, 12);
  const AttentionPlan by_sequence = gradient({4, 4096, 32, 8, 128});
  EXPECT_EQ(by_sequence.sequences, 1);
  EXPECT_EQ(by_sequence.key_heads, 8);
  EXPECT_LT(by_sequence.bytes, kGiB + kGiB / 8);
  const AttentionPlan by_heads = gradient({1, 8192, 32, 8, 128});
  EXPECT_EQ(by_heads.sequences, 1);
  EXPECT_EQ(by_heads.key_heads, 2);
  // Few heads in long sequences: a smaller part would leave processors idle.
  const AttentionPlan full = gradient({1, 16384, 8, 2, 128});
  EXPECT_EQ(full.key_heads, 1);
  EXPECT_EQ(gradient({8, 16384, 2, 2, 64}).sequences, 2);
}

TEST(AttentionPlan, LongSequencesAreLeftToTheOwnKernels) {
  EXPECT_TRUE(gradient({1, 32768, 32, 8, 128}).uses_cudnn);
  EXPECT_TRUE(gradient({1, 65536, 2, 2, 128}).uses_cudnn);
  EXPECT_FALSE(gradient({1, 65536, 32, 8, 128}).uses_cudnn);
  EXPECT_TRUE(plan_attention(describe(OCT_ATTENTION, {1, 65536, 32, 8, 128}), true).uses_cudnn);
}

}  // namespace
}  // namespace octachoron::cuda
