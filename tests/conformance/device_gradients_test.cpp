/// Every backward operation against central differences of its forward operation, in FP64, and the types of
/// gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {
namespace {

using Forward = std::function<std::vector<double>(const Operand&)>;

/// d/dx of sum(dy * f(x)) at places spread over x.
void expect_gradient(const Forward& f, const Operand& x, const std::vector<double>& dy,
                     const std::vector<double>& dx) {
  const double h = 1e-5;
  double scale = 1e-30;
  for (const double g : dx) scale = std::max(scale, std::abs(g));
  ASSERT_EQ(dx.size(), x.values.size());
  for (std::size_t k = 0; k < x.values.size(); k += 1 + x.values.size() / 13) {
    Operand up = x, down = x;
    up.values[k] += h;
    down.values[k] -= h;
    const std::vector<double> a = f(up), b = f(down);
    double slope = 0;
    for (std::size_t i = 0; i < a.size(); ++i) slope += dy[i] * (a[i] - b[i]) / (2 * h);
    EXPECT_NEAR(dx[k], slope, 1e-7 * scale) << "element " << k;
  }
}

constexpr std::int64_t kRows = 7, kColumns = 13;

TEST(DeviceGradients, Norms) {
  if (!computes(OCT_F64)) GTEST_SKIP() << "the device does not compute in FP64";
  Rig rig;
  for (const int kind : {0, 1}) {
    const Operand x = random(OCT_F64, kRows, kColumns, 1), weight = random(OCT_F64, 1, kColumns, 2),
                  bias = random(OCT_F64, 1, kColumns, 3);
    const Operand dy = random(OCT_F64, kRows, kColumns, 4), residual = random(OCT_F64, kRows, kColumns, 5);
    const auto forward = [&](const Operand& x, const Operand& w, const Operand& b) {
      std::vector<Operand> o = {x, w, b, zeros(OCT_F64, kRows, kColumns), zeros(OCT_F64, kRows, 2)};
      rig.run(OCT_NORM, o, {.i = {kind}, .f = {1e-5}});
      return o;
    };
    const Operand statistics = forward(x, weight, bias)[4];
    for (const int place : {-1, 0, 4}) {  // dx apart, over dy, over the residual
      std::vector<Operand> o = {dy, x, weight, statistics, place == 4 ? residual : absent()};
      o.push_back(place < 0 ? zeros(OCT_F64, kRows, kColumns) : alias_of(o, place));
      o.push_back(filled(OCT_F64, 1, kColumns, std::vector<double>(kColumns, 100)));
      o.push_back(filled(OCT_F64, 1, kColumns, std::vector<double>(kColumns, 100)));
      rig.run(OCT_NORM_BACKWARD, o, {.i = {kind, 1}});
      for (std::size_t k = 0; k < residual.values.size() && place == 4; ++k)
        o[5].values[k] -= residual.values[k];
      for (double& g : o[6].values) g -= 100;
      for (double& g : o[7].values) g -= 100;
      expect_gradient([&](const Operand& v) { return forward(v, weight, bias)[3].values; }, x, dy.values,
                      o[5].values);
      expect_gradient([&](const Operand& v) { return forward(x, v, bias)[3].values; }, weight, dy.values,
                      o[6].values);
      expect_gradient([&](const Operand& v) { return forward(x, weight, v)[3].values; }, bias, dy.values,
                      o[7].values);
    }
  }
}

TEST(DeviceGradients, Activations) {
  if (!computes(OCT_F64)) GTEST_SKIP() << "the device does not compute in FP64";
  Rig rig;
  struct Pair {
    oct_op forward, backward;
    std::int64_t factor;
  };
  for (const Pair pair : {Pair{OCT_GELU, OCT_GELU_BACKWARD, 1}, Pair{OCT_SWIGLU, OCT_SWIGLU_BACKWARD, 2}}) {
    const Operand x = random(OCT_F64, kRows, pair.factor * kColumns, 1, 2),
                  dy = random(OCT_F64, kRows, kColumns, 2);
    const auto forward = [&](const Operand& v) {
      std::vector<Operand> o = {v, zeros(OCT_F64, kRows, kColumns)};
      rig.run(pair.forward, o);
      return o[1].values;
    };
    std::vector<Operand> o = {x, dy};
    o.push_back(pair.factor == 1 ? alias_of(o, 1) : zeros(OCT_F64, kRows, x.columns));
    rig.run(pair.backward, o);
    expect_gradient(forward, x, dy.values, o[2].values);
  }
}

TEST(DeviceGradients, Attention) {
  if (!computes(OCT_F64)) GTEST_SKIP() << "the device does not compute in FP64";
  Rig rig;
  const Attributes attributes = {.i = {33, 4, 2, 6}, .f = {0.4}};
  const Operand qkv = random(OCT_F64, 66, 48, 1), dout = random(OCT_F64, 66, 24, 2);
  const auto forward = [&](const Operand& v) {
    std::vector<Operand> o = {v, zeros(OCT_F64, 66, 24), zeros(OCT_F64, 66, 4)};
    rig.run(OCT_ATTENTION, o, attributes);
    return o;
  };
  const std::vector<Operand> saved = forward(qkv);
  std::vector<Operand> o = {qkv, saved[1], saved[2], dout, zeros(OCT_F64, 66, 48)};
  rig.run(OCT_ATTENTION_BACKWARD, o, attributes);
  expect_gradient([&](const Operand& v) { return forward(v)[1].values; }, qkv, dout.values, o[4].values);
}

TEST(DeviceGradients, Loss) {
  if (!computes(OCT_F64)) GTEST_SKIP() << "the device does not compute in FP64";
  Rig rig;
  const Operand logits = random(OCT_F64, kRows, kColumns, 1),
                targets = filled(OCT_I32, 1, kRows, {0, 3, -1, 11, 5, 5, 12});
  const Operand scalars = filled(OCT_F64, 1, 8, {0, 0, 0.125, 0, 0, 0, 0, 0});
  const auto run = [&](const Operand& v) {
    std::vector<Operand> s = {v, targets, zeros(OCT_F64, kRows, 3)};
    rig.run(OCT_LOSS_STATISTICS, s, {.i = {0, kColumns}});
    std::vector<Operand> o = {
        v, targets, s[2], scalars, zeros(OCT_F64, kRows, kColumns), zeros(OCT_F64, 1, 1)};
    rig.run(OCT_LOSS, o, {.i = {0, kColumns, 1, 1}});
    return o;
  };
  expect_gradient([&](const Operand& v) { return run(v)[5].values; }, logits, {0.125}, run(logits)[4].values);
}

/// The embedding is linear: <dout, E(table)> = <E'(dout), table>.
TEST(DeviceGradients, EmbeddingsAreAdjoint) {
  if (!computes(OCT_F64)) GTEST_SKIP() << "the device does not compute in FP64";
  Rig rig;
  const Operand table = random(OCT_F64, 9, kColumns, 1), dout = random(OCT_F64, kRows, kColumns, 2);
  const Operand ids = filled(OCT_I32, 1, kRows, {4, 4, 0, 12, 8, 3, 4});
  std::vector<Operand> forward = {ids, table, zeros(OCT_F64, kRows, kColumns)},
                       back = {ids, dout, zeros(OCT_F64, 9, kColumns)};
  rig.run(OCT_EMBEDDING, forward, {.i = {0}});
  rig.run(OCT_EMBEDDING_BACKWARD, back, {.i = {0, 0}});
  double left = 0, right = 0;
  for (std::size_t k = 0; k < dout.values.size(); ++k) left += dout.values[k] * forward[2].values[k];
  for (std::size_t k = 0; k < table.values.size(); ++k) right += table.values[k] * back[2].values[k];
  EXPECT_NEAR(left, right, 1e-12);
}

/// Coarser types agree with the gradients in FP64, at awkward sizes, with FP32 gradients of BF16 layers.
TEST(DeviceGradients, NormsAndActivationsInAllTypes) {
  if (!computes(OCT_F64)) GTEST_SKIP() << "the device does not compute in FP64";
  for (const DType type : {OCT_F32, OCT_BF16}) {
    for (const std::int64_t columns : {1, 7, 131, 300}) {
      Rig rig(3);
      const std::int64_t rows = 37;
      std::vector<Operand> o = {random(type, rows, columns, 4), random(type, rows, columns, 1),
                                random(type, 1, columns, 2),    random(wide(type), rows, 2, 3),
                                random(type, rows, columns, 5), zeros(type, rows, columns),
                                zeros(wide(type), 1, columns),  zeros(wide(type), 1, columns)};
      std::vector<Operand> exact = o, g = {o[1], o[0], o[5]}, exact_g = g;
      for (Operand& x : exact) x.type = x.rows > 0 ? OCT_F64 : x.type;
      for (Operand& x : exact_g) x.type = OCT_F64;
      rig.run(OCT_NORM_BACKWARD, o, {.i = {0, 0}});
      rig.run(OCT_NORM_BACKWARD, exact, {.i = {0, 0}});
      EXPECT_LE(difference(o[5].values, exact[5].values), 2 * tolerance(type));
      for (const std::size_t k : {6u, 7u}) EXPECT_LE(difference(o[k].values, exact[k].values), 2e-6);
      rig.run(OCT_GELU_BACKWARD, g);
      rig.run(OCT_GELU_BACKWARD, exact_g);
      EXPECT_LE(difference(g[2].values, exact_g[2].values), tolerance(type));
    }
  }
}

TEST(DeviceGradients, ThreadsDoNotChangeBits) {
  for (const DType type : kTypes) {
    std::vector<std::vector<Operand>> results;
    for (const int threads : {1, 2, 3}) {
      results.push_back({random(type, 211, 300, 4), random(type, 211, 300, 1), random(type, 1, 300, 2),
                         random(wide(type), 211, 2, 3), absent(), zeros(type, 211, 300),
                         zeros(wide(type), 1, 300), zeros(wide(type), 1, 300)});
      Rig(threads).run(OCT_NORM_BACKWARD, results.back(), {.i = {0, 0}});
    }
    for (const auto& o : results) {
      for (std::size_t k = 5; k < o.size(); ++k) EXPECT_EQ(o[k].values, results[0][k].values);
    }
  }
}

}  // namespace
}  // namespace octachoron::conformance
