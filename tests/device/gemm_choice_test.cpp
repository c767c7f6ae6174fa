// Which products of the CPU device oneDNN computes, and that both ways give the same. Links the sources of
// the plugin, as the choice depends on the processor and a plugin can show only the one at hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "plugins/device/cpu/gemm.h"
#include "plugins/device/cpu/kernels/layout.h"

namespace octachoron::cpu {
namespace {

struct Shape {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false, accumulate = false;
};

oct_operation product(const Shape& s, int from, int to, bool bias = false) {
  const auto matrix = [](int type, std::int64_t rows, std::int64_t columns) {
    return oct_matrix{type, 0, rows, columns, columns};
  };
  oct_operation op{};
  op.struct_size = sizeof op;
  op.op = OCT_GEMM;
  op.operands = 6;
  op.operand[0] = s.transpose_a ? matrix(from, s.k, s.m) : matrix(from, s.m, s.k);
  op.operand[1] = s.transpose_b ? matrix(from, s.n, s.k) : matrix(from, s.k, s.n);
  if (bias) op.operand[4] = matrix(from, 1, s.n);
  op.operand[5] = matrix(to, s.m, s.n);
  op.i[0] = s.transpose_a, op.i[1] = s.transpose_b, op.i[2] = s.accumulate;
  return op;
}

bool wide_products(const std::string& isa) {
  return uses_onednn(product({8, 8, 8}, OCT_F32, OCT_F32), isa);
}
bool narrow_products(const std::string& isa) {
  const bool to_wide = uses_onednn(product({8, 8, 8}, OCT_BF16, OCT_F32), isa);
  EXPECT_EQ(to_wide, uses_onednn(product({8, 8, 8}, OCT_BF16, OCT_BF16), isa)) << isa;
  return to_wide;
}

TEST(GemmChoice, FollowsTheInstructions) {
  for (const char* isa : {"", "cpu_isa_sse41", "cpu_isa_avx", "cpu_isa_avx2", "cpu_isa_avx2_vnni"}) {
    EXPECT_FALSE(wide_products(isa)) << isa;
    EXPECT_FALSE(narrow_products(isa)) << isa;
  }
  for (const char* isa : {"cpu_isa_avx512_core", "cpu_isa_avx512_core_vnni"}) {
    EXPECT_FALSE(wide_products(isa)) << isa;
    EXPECT_FALSE(narrow_products(isa)) << isa;
  }
  for (const char* isa : {"cpu_isa_avx512_core_bf16", "cpu_isa_avx512_core_fp16", "cpu_isa_avx512_core_amx",
                          "cpu_isa_avx512_core_amx_fp16", "cpu_isa_avx10_1_512", "cpu_isa_avx10_1_512_amx"}) {
    EXPECT_FALSE(wide_products(isa)) << isa;
    EXPECT_TRUE(narrow_products(isa)) << isa;
  }
}

TEST(GemmChoice, LeavesTheRestToTheOwnKernel) {
  const std::string best = "cpu_isa_avx512_core_amx";
  EXPECT_FALSE(uses_onednn(product({8, 8, 8}, OCT_F64, OCT_F64), best));
  EXPECT_FALSE(uses_onednn(product({8, 8, 8}, OCT_F32, OCT_BF16), best));
  EXPECT_FALSE(uses_onednn(product({8, 8, 8}, OCT_BF16, OCT_F64), best));
  EXPECT_FALSE(uses_onednn(product({8, 8, 0}, OCT_F32, OCT_F32), best));
  EXPECT_FALSE(uses_onednn(product({0, 8, 8}, OCT_BF16, OCT_F32), best));
}

// A test of its own sets ONEDNN_MAX_CPU_ISA.
TEST(GemmChoice, ObeysTheLimitOfTheUser) {
  const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (limit == nullptr || std::string(limit) != "AVX2") GTEST_SKIP() << "ONEDNN_MAX_CPU_ISA is not AVX2";
  EXPECT_FALSE(narrow_products(onednn_isa())) << onednn_isa();
  EXPECT_FALSE(wide_products(onednn_isa())) << onednn_isa();
}

/// Memory of an operand with values that both types hold.
std::vector<char> values(const oct_matrix& m, unsigned seed) {
  std::minstd_rand number(seed);
  std::vector<char> memory(std::size_t(m.rows * m.pitch * (m.dtype == OCT_BF16 ? 2 : 4)));
  for (std::int64_t i = 0; i < m.rows * m.pitch; ++i) {
    const float value = (float(number() % 255) - 127) / 128;
    if (m.dtype == OCT_F32) std::memcpy(&memory[std::size_t(4 * i)], &value, 4);
    if (m.dtype == OCT_BF16)
      std::memcpy(&memory[std::size_t(2 * i)], reinterpret_cast<const char*>(&value) + 2, 2);
  }
  return memory;
}
float value(const std::vector<char>& memory, std::int32_t type, std::size_t i) {
  float out = 0;
  if (type == OCT_F32) std::memcpy(&out, &memory[4 * i], 4);
  if (type == OCT_BF16) std::memcpy(reinterpret_cast<char*>(&out) + 2, &memory[2 * i], 2);
  return out;
}

/// The result by oneDNN on `threads` threads, or (0) by the own kernel.
std::vector<char> result(const oct_operation& op, int threads) {
  std::vector<std::vector<char>> memory(OCT_MAX_OPERANDS);
  void* pointers[kPointers] = {};
  for (const int k : {0, 1, 4, 5}) {
    if (op.operand[k].rows == 0) continue;
    memory[std::size_t(k)] = values(op.operand[k], unsigned(k + 1));
    pointers[k] = memory[std::size_t(k)].data();
  }
  if (threads > 0) {
    const GemmPlan plan(op, threads);
    void* workspace = std::aligned_alloc(4096, std::size_t(round_up(plan.workspace + 1, 4096)));
    pointers[kWorkspace] = workspace;
    GemmOperation(op, generic::find_kernel, threads).run(pointers);
    std::free(workspace);
  } else {
    const device_common::GemmShape s = device_common::gemm_shape(op);
    std::vector<float> workspace(std::size_t(gemm_workspace(s.m, s.n, s.k, true)));
    pointers[kWorkspace] = workspace.data();
    generic::find_kernel(op)({op, pointers, 1, nullptr});
  }
  return memory[5];
}

void expect_agreement(int from, int to) {
  for (const bool bias : {false, true})
    for (const Shape& s : {Shape{1111, 67, 130, false, true}, Shape{65, 1030, 300, true, false, true},
                           Shape{33, 47, 29, false, false, true}}) {
      const oct_operation op = product(s, from, to, bias);
      const std::vector<char> own = result(op, 0), theirs = result(op, 1);
      // Sums of k terms below 1: FP32 rounding of sums, and of the result where that is narrower.
      const double bound = double(s.k) * 6e-8 * std::sqrt(double(s.k));
      for (std::size_t i = 0; i < std::size_t(s.m * s.n); ++i) {
        const double x = value(own, to, i), y = value(theirs, to, i);
        ASSERT_NEAR(x, y, bound + (to == OCT_BF16 ? std::abs(x) / 128 : 0)) << i << ", k = " << s.k;
      }
      EXPECT_EQ(theirs, result(op, 2)) << "threads must not change bits";
    }
}

TEST(GemmAgreement, WideOperands) {
  if (onednn_version().empty()) GTEST_SKIP() << "built without oneDNN";
  expect_agreement(OCT_F32, OCT_F32);
}

TEST(GemmAgreement, NarrowOperands) {
  if (!narrow_products(onednn_isa()))
    GTEST_SKIP() << "this processor does not multiply BF16 (" << onednn_isa() << ")";
  expect_agreement(OCT_BF16, OCT_F32);
  expect_agreement(OCT_BF16, OCT_BF16);
}

}  // namespace
}  // namespace octachoron::cpu
