/// What the device answers without a GPU: properties, workspace, cost, refusals that name what is wrong.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/plugin/abi.h"
#include "core/plugin/dtype.h"
#include "plugins/device/cuda/sharing.h"

namespace octachoron {
namespace {

using testing::HasSubstr;
using testing::Not;

const oct_plugin& plugin() {
  void* library =
      dlopen(OCTACHORON_BINARY_DIR "/lib/octachoron/device-cuda.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return *reinterpret_cast<oct_plugin_entry>(dlsym(library, OCT_PLUGIN_ENTRY))();
}
const oct_device_table& table() {
  return *static_cast<const oct_device_table*>(plugin().table);
}

oct_host host() {
  oct_host h{};
  h.struct_size = sizeof h;
  h.size = h.local_size = 1;
  return h;
}

class CudaDry : public testing::Test {
 protected:
  CudaDry() {
    const oct_host h = host();
    const oct_device_options options = {sizeof options, 1, 1, nullptr};
    if (table().create(&h, &options, &device_) != OCT_OK) throw std::runtime_error(plugin().last_error());
  }
  ~CudaDry() override { table().destroy(device_); }

  oct_support ask(oct_op op, const std::vector<oct_matrix>& operands, const std::vector<std::int64_t>& i = {},
                  const std::vector<double>& f = {}) {
    oct_operation d{};
    d.struct_size = sizeof d;
    d.op = op;
    d.operands = std::int32_t(operands.size());
    std::copy(operands.begin(), operands.end(), d.operand);
    std::copy(i.begin(), i.end(), d.i);
    std::copy(f.begin(), f.end(), d.f);
    oct_support s{};
    s.struct_size = sizeof s;
    EXPECT_EQ(table().query(device_, &d, &s), OCT_OK);
    return s;
  }

  oct_device* device_ = nullptr;
};

oct_matrix of(oct_dtype type, std::int64_t rows, std::int64_t columns) {
  return {type, 0, rows, columns, columns};
}

TEST_F(CudaDry, Properties) {
  oct_device_properties p{};
  p.struct_size = sizeof p;
  ASSERT_EQ(table().properties(device_, &p), OCT_OK);
  EXPECT_EQ(p.is_host, 0);
  EXPECT_EQ(p.has_graphs, 1);
  EXPECT_NE(p.description[0], 0);
}

TEST_F(CudaDry, AnythingElseIsRefused) {
  void* memory = nullptr;
  EXPECT_EQ(table().allocate(device_, OCT_MEMORY_DEVICE, 1, &memory), OCT_INVALID_ARGUMENT);
  EXPECT_THAT(plugin().last_error(), HasSubstr("dry"));
}

/// Without a GPU a real device cannot be made, and the reason says so; with one this is not the place to make
/// it.
TEST(Cuda, WithoutGpuTheReasonIsNamed) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const oct_host h = host();
  const oct_device_options options = {sizeof options, 1, 0, nullptr};
  oct_device* device = nullptr;
  EXPECT_EQ(table().create(&h, &options, &device), OCT_DEVICE_ERROR);
  const std::string reason = plugin().last_error();
  EXPECT_THAT(reason, HasSubstr("no NVIDIA GPU can be used ("));
  EXPECT_THAT(reason, Not(HasSubstr("driver version is insufficient"))) << "where there is no driver at all";
}

TEST_F(CudaDry, Gemm) {
  const oct_matrix none = {};
  const oct_support s = ask(OCT_GEMM,
                            {of(OCT_BF16, 8192, 4096), of(OCT_BF16, 14336, 4096), none, none,
                             of(OCT_BF16, 1, 14336), of(OCT_BF16, 8192, 14336)},
                            {0, 1});
  EXPECT_EQ(s.supported, 1) << s.reason;
  EXPECT_EQ(s.workspace_bytes, 32 << 20);
  EXPECT_EQ(s.flops, 2. * 8192 * 4096 * 14336);
  // A small product does not ask for the workspace of a large one; another type of the result needs the
  // product itself.
  EXPECT_LT(ask(OCT_GEMM, {of(OCT_BF16, 8, 8), of(OCT_BF16, 8, 8), none, none, none, of(OCT_BF16, 8, 8)})
                .workspace_bytes,
            1 << 16);
  EXPECT_GE(ask(OCT_GEMM,
                {of(OCT_F32, 4096, 64), of(OCT_F32, 64, 4096), none, none, none, of(OCT_BF16, 4096, 4096)})
                .workspace_bytes,
            4 * 4096 * 4096);
}

TEST_F(CudaDry, Fp8GemmIsTakenAsCublasCan) {
  const oct_matrix none = {}, scale = of(OCT_F32, 1, 1);
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k, bool tb, oct_dtype a,
                           oct_dtype b) {
    return ask(OCT_GEMM,
               {of(a, m, k), tb ? of(b, n, k) : of(b, k, n), scale, scale, none, of(OCT_BF16, m, n)},
               {0, tb, 0, 1});
  };
  EXPECT_EQ(product(64, 32, 128, true, OCT_E4M3, OCT_E4M3).supported, 1);
  EXPECT_EQ(product(64, 32, 128, true, OCT_E5M2, OCT_E4M3).supported, 1);
  EXPECT_THAT(product(64, 32, 128, false, OCT_E4M3, OCT_E4M3).reason, HasSubstr("b transposed"));
  EXPECT_THAT(product(64, 32, 120, true, OCT_E4M3, OCT_E4M3).reason,
              HasSubstr("multiples of 16; 120 is not"));
  EXPECT_THAT(product(64, 32, 128, true, OCT_E5M2, OCT_E5M2).reason, HasSubstr("e4m3"));
  EXPECT_THAT(
      ask(OCT_GEMM, {of(OCT_E4M3, 16, 16), of(OCT_E4M3, 16, 16), none, scale, none, of(OCT_BF16, 16, 16)},
          {0, 1})
          .reason,
      HasSubstr("(a_scale) is missing"));
}

TEST_F(CudaDry, DoublesAreScalarsOnly) {
  EXPECT_THAT(ask(OCT_GELU, {of(OCT_F64, 2, 3), of(OCT_F64, 2, 3)}).reason, HasSubstr("(x) is of type f64"));
  EXPECT_EQ(ask(OCT_COPY, {of(OCT_F64, 2, 3), of(OCT_F64, 2, 3)}).supported, 1);
  EXPECT_EQ(ask(OCT_COPY, {of(OCT_F64, 2, 3), of(OCT_F32, 2, 3)}).supported, 0);
  EXPECT_EQ(ask(OCT_CLIP, {of(OCT_F64, 1, 4), of(OCT_F64, 1, 8), of(OCT_F64, 1, 4)}, {}, {1}).supported, 1);
}

TEST_F(CudaDry, QuantizeAndScales) {
  const oct_matrix none = {}, scale = of(OCT_F32, 1, 1), amax = of(OCT_U32, 1, 1);
  EXPECT_EQ(ask(OCT_QUANTIZE,
                {of(OCT_BF16, 5, 7), scale, of(OCT_E4M3, 5, 7), of(OCT_E4M3, 7, 5), amax, of(OCT_U64, 1, 3)})
                .supported,
            1);
  EXPECT_THAT(ask(OCT_QUANTIZE, {of(OCT_BF16, 5, 7), scale, none, of(OCT_E4M3, 5, 7)}).reason,
              HasSubstr("(column) is 5 x 7, not 7 x 5"));
  EXPECT_THAT(ask(OCT_QUANTIZE, {of(OCT_BF16, 2, 7), scale, of(OCT_E4M3, 2, 7)}, {1, 0, 0, 7}).reason,
              HasSubstr("the one row of a window"));
  EXPECT_EQ(
      ask(OCT_UPDATE_SCALE, {of(OCT_U32, 9, 1), of(OCT_F32, 9, 16), of(OCT_F32, 9, 1)}, {0, 0, 0}, {448})
          .supported,
      1);
  EXPECT_THAT(
      ask(OCT_UPDATE_SCALE, {of(OCT_U32, 9, 1), of(OCT_F32, 9, 16), of(OCT_F32, 9, 1)}, {0, 3, 0}, {448})
          .reason,
      HasSubstr("i1 is 3"));
  EXPECT_EQ(ask(OCT_CURRENT_SCALE, {amax, none, none, scale}, {0}, {448}).supported, 1);
  EXPECT_THAT(ask(OCT_TRANSPOSE, {of(OCT_F64, 2, 3), of(OCT_F64, 3, 2)}).reason,
              HasSubstr("more than 4 bytes"));
}

TEST_F(CudaDry, CastsOfResultsInBf16) {
  const oct_matrix none = {}, scale = of(OCT_F32, 1, 1), amax = of(OCT_U32, 1, 1),
                   counters = of(OCT_U64, 1, 3);
  const auto gelu = [&](oct_dtype type, const oct_matrix& y) {
    return ask(OCT_GELU, {of(type, 6, 32), y, scale, of(OCT_E4M3, 6, 32), amax, counters});
  };
  EXPECT_EQ(gelu(OCT_BF16, of(OCT_BF16, 6, 32)).supported, 1);
  const oct_support dropped = gelu(OCT_BF16, none);
  EXPECT_EQ(dropped.supported, 1) << dropped.reason;
  EXPECT_EQ(dropped.bytes, 6 * 32 * (2 + 1) + 4 + 4 + 24) << "read once, written as bytes";
  EXPECT_THAT(gelu(OCT_F32, none).reason, HasSubstr("an operation of its own on this device"));
  const oct_matrix x = of(OCT_BF16, 6, 32), w = of(OCT_BF16, 1, 32), statistics = of(OCT_F32, 6, 2);
  EXPECT_EQ(
      ask(OCT_NORM, {x, w, none, none, statistics, scale, of(OCT_E4M3, 6, 32), amax, counters}, {1}, {1e-5})
          .supported,
      1);
  EXPECT_EQ(ask(OCT_NORM_BACKWARD,
                {x, x, w, statistics, none, x, of(OCT_F32, 1, 32), none, scale, of(OCT_E5M2, 6, 32), amax,
                 counters},
                {1, 0})
                .supported,
            1);
}

/// The own attention never stores the score matrix, cuDNN's gradient stores it in parts; gradients of
/// embeddings need no table of their own.
TEST_F(CudaDry, WorkspaceIsBounded) {
  const auto attention = [&](oct_op op, oct_dtype type, std::int64_t s) {
    const oct_matrix wide = of(type, s, 3 * 128), narrow = of(type, s, 128), lse = of(OCT_F32, s, 2);
    return ask(op,
               op == OCT_ATTENTION ? std::vector{wide, narrow, lse}
                                   : std::vector{wide, narrow, lse, narrow, wide},
               {s, 2, 2, 64}, {0.125})
        .workspace_bytes;
  };
  EXPECT_EQ(attention(OCT_ATTENTION_BACKWARD, OCT_F32, 1 << 15),
            2 * attention(OCT_ATTENTION_BACKWARD, OCT_F32, 1 << 14));
  EXPECT_EQ(attention(OCT_ATTENTION, OCT_F32, 1 << 15), 0);
  EXPECT_LT(attention(OCT_ATTENTION, OCT_BF16, 1 << 15), 1 << 16);
  EXPECT_LT(attention(OCT_ATTENTION_BACKWARD, OCT_BF16, 1 << 15), std::int64_t(9) << 30);
  const auto embedding = [&](std::int64_t tokens) {
    return ask(OCT_EMBEDDING_BACKWARD,
               {of(OCT_I32, 1, tokens), of(OCT_BF16, tokens, 768), of(OCT_F32, 50304, 768)}, {0, 1})
        .workspace_bytes;
  };
  EXPECT_LT(embedding(16384), 4 * 16384 * 768);
}

// H06: which rank has which GPU, and a warning where two have one. Equal addresses on two nodes are two GPUs.
TEST(CudaSharing, NamesRanksThatHaveOneGpu) {
  const auto rank = [](const char* node, const char* bus, unsigned char id) {
    cuda::RankGpu gpu;
    std::strcpy(gpu.node, node), std::strcpy(gpu.bus, bus), gpu.uuid[0] = id;
    return gpu;
  };
  std::vector<cuda::RankGpu> ranks = {rank("a", "0:18", 1), rank("b", "0:18", 2), rank("a", "0:19", 3)};
  EXPECT_THAT(cuda::gpus_by_node(ranks), testing::ElementsAre("node a: rank 0 has GPU 0:18, rank 2 has GPU 0:19",
                                                              "node b: rank 1 has GPU 0:18"));
  EXPECT_EQ(cuda::sharing_warning(ranks), "");
  ranks[2] = ranks[0];
  EXPECT_THAT(cuda::sharing_warning(ranks), HasSubstr("(ranks 0, 2 have 0:18 of a,"));
}

}  // namespace
}  // namespace octachoron
