/// Causal attention against the full score matrix in FP64.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {
namespace {

struct Shape {
  std::int64_t batch, sequence, heads, key_heads, size;
  std::int64_t tokens() const { return batch * sequence; }
  std::int64_t columns() const { return (heads + 2 * key_heads) * size; }
  double scale() const { return 1 / std::sqrt(double(size)); }
  Attributes attributes() const { return {.i = {sequence, heads, key_heads, size}, .f = {scale()}}; }
};

struct Result {
  std::vector<double> out, lse, dqkv;
};

/// One query head: probabilities row by row, then gradients by the chain rule of the matrices.
void reference_head(const Shape& s, const Operand& qkv, const Operand* dout, std::int64_t b, std::int64_t h,
                    Result* result) {
  const std::int64_t kh = h / (s.heads / s.key_heads), first = b * s.sequence, d = s.size;
  const std::int64_t q = h * d, k = (s.heads + kh) * d, v = (s.heads + s.key_heads + kh) * d;
  const auto gradient = [&](std::int64_t t, std::int64_t c) -> double& {
    return result->dqkv[std::size_t(t * s.columns() + c)];
  };
  for (std::int64_t i = first; i < first + s.sequence; ++i) {
    std::vector<double> p(std::size_t(i - first + 1)), dp(p.size());
    double maximum = -INFINITY, sum = 0, delta = 0;
    for (std::int64_t j = first; j <= i; ++j) {
      double& score = p[std::size_t(j - first)];
      for (std::int64_t c = 0; c < d; ++c) score += s.scale() * qkv.at(i, q + c) * qkv.at(j, k + c);
      maximum = std::max(maximum, score);
    }
    for (double& x : p) sum += x = std::exp(x - maximum);
    result->lse[std::size_t(i * s.heads + h)] = maximum + std::log(sum);
    for (std::int64_t j = first; j <= i; ++j) {
      p[std::size_t(j - first)] /= sum;
      for (std::int64_t c = 0; c < d; ++c) {
        result->out[std::size_t(i * s.heads * d + q + c)] += p[std::size_t(j - first)] * qkv.at(j, v + c);
        if (dout != nullptr) dp[std::size_t(j - first)] += dout->at(i, q + c) * qkv.at(j, v + c);
      }
      delta += p[std::size_t(j - first)] * dp[std::size_t(j - first)];
    }
    for (std::int64_t j = first; j <= i && dout != nullptr; ++j) {
      const double probability = p[std::size_t(j - first)],
                   ds = probability * (dp[std::size_t(j - first)] - delta) * s.scale();
      for (std::int64_t c = 0; c < d; ++c) {
        gradient(i, q + c) += ds * qkv.at(j, k + c);
        gradient(j, k + c) += ds * qkv.at(i, q + c);
        gradient(j, v + c) += probability * dout->at(i, q + c);
      }
    }
  }
}

Result reference(const Shape& s, const Operand& qkv, const Operand* dout) {
  Result result{std::vector<double>(std::size_t(s.tokens() * s.heads * s.size)),
                std::vector<double>(std::size_t(s.tokens() * s.heads)),
                std::vector<double>(std::size_t(s.tokens() * s.columns()))};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) reference_head(s, qkv, dout, b, h, &result);
  }
  return result;
}

std::vector<Operand> forward_operands(const Shape& s, DType type, std::int64_t gap) {
  return {with_gap(random(type, s.tokens(), s.columns(), 1), gap),
          with_gap(zeros(type, s.tokens(), s.heads * s.size), gap),
          with_gap(zeros(wide(type), s.tokens(), s.heads), gap)};
}

constexpr Shape kShapes[] = {{1, 1, 1, 1, 2},    {2, 7, 3, 3, 6},    {1, 65, 2, 1, 16}, {2, 130, 4, 2, 20},
                             {1, 64, 1, 1, 256}, {1, 193, 2, 2, 64}, {3, 33, 6, 2, 8}};

TEST(DeviceAttention, ForwardAndBackward) {
  Rig rig;
  for (const DType type : kTypes) {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << name(type) << " B " << s.batch << " S " << s.sequence << " N "
                                      << s.heads << " K " << s.key_heads << " D " << s.size);
      const double bound = type == OCT_F32 ? 3e-6 : type == OCT_F64 ? 1e-13 : 2e-2;
      std::vector<Operand> o = forward_operands(s, type, 3);
      const Operand dout = with_gap(random(type, s.tokens(), s.heads * s.size, 2), 1);
      const Result expected = reference(s, o[0], &dout);
      rig.run(OCT_ATTENTION, o, s.attributes());
      EXPECT_LE(difference(o[1].values, expected.out), bound);
      EXPECT_LE(difference(o[2].values, expected.lse), type == OCT_BF16 ? 1e-5 : bound);
      std::vector<Operand> back = {o[0], o[1], o[2], dout,
                                   with_gap(random(type, s.tokens(), s.columns(), 5), 2)};
      rig.run(OCT_ATTENTION_BACKWARD, back, s.attributes());
      EXPECT_LE(difference(back[4].values, expected.dqkv), bound);
    }
  }
}

TEST(DeviceAttention, LaterTokensChangeNothing) {
  Rig rig;
  const Shape s = {1, 150, 2, 2, 32};
  std::vector<Operand> one = forward_operands(s, OCT_F32, 0), two = one;
  for (std::int64_t c = 0; c < s.columns(); ++c) two[0].values[std::size_t(100 * s.columns() + c)] = 50;
  rig.run(OCT_ATTENTION, one, s.attributes());
  rig.run(OCT_ATTENTION, two, s.attributes());
  const auto width = std::size_t(s.heads * s.size);
  for (std::size_t k = 0; k < 100 * width; ++k) ASSERT_EQ(one[1].values[k], two[1].values[k]);
  EXPECT_NE(one[1].values[100 * width], two[1].values[100 * width]);
}

TEST(DeviceAttention, LargeScoresDoNotOverflow) {
  Rig rig;
  const Shape s = {1, 70, 1, 1, 4};
  std::vector<Operand> o = forward_operands(s, OCT_F32, 0);
  for (double& v : o[0].values) v = rounded(OCT_F32, 100 * v);
  const Result expected = reference(s, o[0], nullptr);
  rig.run(OCT_ATTENTION, o, s.attributes());
  EXPECT_LE(difference(o[1].values, expected.out), 1e-2);  // scores of 1e4: their rounding is e^(1e4 * 1e-7)
  EXPECT_LE(difference(o[2].values, expected.lse), 1e-6);
}

TEST(DeviceAttention, NanReachesWhatSeesIt) {
  Rig rig;
  const Shape s = {1, 80, 1, 1, 4};
  std::vector<Operand> o = forward_operands(s, OCT_F32, 0);
  o[0].values[std::size_t(70 * s.columns())] = NAN;  // a query
  rig.run(OCT_ATTENTION, o, s.attributes());
  for (std::int64_t t = 0; t < s.tokens(); ++t) EXPECT_EQ(std::isnan(o[1].at(t, 0)), t == 70) << t;
}

TEST(DeviceAttention, ThreadsDoNotChangeBits) {
  const Shape s = {2, 150, 4, 2, 24};
  for (const DType type : kTypes) {
    std::vector<std::vector<double>> results;
    for (const int threads : {1, 2, 3}) {
      Rig rig(threads);
      std::vector<Operand> o = forward_operands(s, type, 0);
      rig.run(OCT_ATTENTION, o, s.attributes());
      std::vector<Operand> back = {o[0], o[1], o[2], random(type, s.tokens(), s.heads * s.size, 2),
                                   zeros(type, s.tokens(), s.columns())};
      rig.run(OCT_ATTENTION_BACKWARD, back, s.attributes());
      results.push_back(o[1].values);
      results.back().insert(results.back().end(), back[4].values.begin(), back[4].values.end());
    }
    EXPECT_EQ(results[1], results[0]);
    EXPECT_EQ(results[2], results[0]);
  }
}

/// The score matrix is never stored: workspace does not grow with the square of the sequence.
TEST(DeviceAttention, WorkspaceIsLinearInTheSequence) {
  Rig rig(1);
  const auto workspace = [&](oct_op op, std::int64_t sequence) {
    const Shape s = {1, sequence, 2, 2, 64};
    std::vector<Operand> o = {
        {OCT_F32, sequence, s.columns(), {}}, {OCT_F32, sequence, 128, {}}, {OCT_F32, sequence, 2, {}}};
    if (op == OCT_ATTENTION_BACKWARD)
      o.insert(o.end(), {{OCT_F32, sequence, 128, {}}, {OCT_F32, sequence, s.columns(), {}}});
    const oct_operation description = describe(op, o, s.attributes());
    oct_support support{};
    support.struct_size = sizeof support;
    EXPECT_EQ(rig.table().query(rig.device(), &description, &support), OCT_OK);
    EXPECT_TRUE(support.supported) << support.reason;
    return support.workspace_bytes;
  };
  for (const oct_op op : {OCT_ATTENTION, OCT_ATTENTION_BACKWARD}) {
    const auto growth = workspace(op, 1 << 15) - workspace(op, 1 << 14);
    EXPECT_LE(growth, (1 << 14) * 4 * 2 * 66) << op;
  }
}

}  // namespace
}  // namespace octachoron::conformance
