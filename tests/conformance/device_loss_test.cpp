/// Cross-entropy over a split vocabulary.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {
namespace {

struct Loss {
  double sum = 0;
  std::vector<double> dlogits;  // [tokens, columns of all parts]
};

/// Runs statistics on each part, stacks them, then the loss on each part. `logits` has parts * width columns.
Loss run_split(Rig& rig, const Operand& logits, const Operand& targets, std::int64_t parts,
               std::int64_t vocabulary, double inverse_tokens, bool in_place) {
  const std::int64_t tokens = logits.rows, width = logits.columns / parts;
  std::vector<Operand> pieces;
  Operand stacked = zeros(wide(logits.type), parts * tokens, 3);
  for (std::int64_t p = 0; p < parts; ++p) {
    Operand piece = zeros(logits.type, tokens, width);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t c = 0; c < width; ++c)
        piece.values[std::size_t(t * width + c)] = logits.at(t, p * width + c);
    }
    std::vector<Operand> o = {with_gap(piece, 3), targets, zeros(wide(logits.type), tokens, 3)};
    rig.run(OCT_LOSS_STATISTICS, o, {.i = {p * width, vocabulary}});
    std::copy(o[2].values.begin(), o[2].values.end(), stacked.values.begin() + p * tokens * 3);
    pieces.push_back(piece);
  }
  Loss loss;
  loss.dlogits.resize(logits.values.size());
  for (std::int64_t p = 0; p < parts; ++p) {
    std::vector<Operand> o = {with_gap(pieces[std::size_t(p)], 3), targets, stacked,
                              filled(OCT_F64, 1, 8, {0, 0, inverse_tokens, 0, 0, 0, 0, 0})};
    o.push_back(in_place ? alias_of(o, 0) : zeros(logits.type, tokens, width));
    o.push_back(filled(OCT_F64, 1, 1, {10}));
    rig.run(OCT_LOSS, o, {.i = {p * width, vocabulary, parts, 1}});
    loss.sum = o[5].values[0] - 10;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t c = 0; c < width; ++c)
        loss.dlogits[std::size_t(t * logits.columns + p * width + c)] = o[4].at(t, c);
    }
  }
  return loss;
}

Loss reference(const Operand& logits, const Operand& targets, std::int64_t vocabulary,
               double inverse_tokens) {
  Loss loss;
  loss.dlogits.resize(logits.values.size());
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const auto target = std::int64_t(targets.values[std::size_t(t)]);
    if (target < 0) continue;
    double maximum = -INFINITY, sum = 0;
    for (std::int64_t c = 0; c < vocabulary; ++c) maximum = std::max(maximum, logits.at(t, c));
    for (std::int64_t c = 0; c < vocabulary; ++c) sum += std::exp(logits.at(t, c) - maximum);
    loss.sum += maximum + std::log(sum) - logits.at(t, target);
    for (std::int64_t c = 0; c < vocabulary; ++c) {
      const double p = std::exp(logits.at(t, c) - maximum) / sum;
      loss.dlogits[std::size_t(t * logits.columns + c)] = (p - (c == target ? 1 : 0)) * inverse_tokens;
    }
  }
  return loss;
}

/// Fault B03: a vocabulary of 5, padded to the next multiple of the parts; padding does not exist.
TEST(DeviceLoss, EqualLogitsGiveTheLogarithmOfTheVocabulary) {
  Rig rig;
  for (const DType type : kTypes) {
    for (const std::int64_t parts : {1, 2, 3, 4, 8}) {
      const std::int64_t columns = (5 + parts - 1) / parts * parts;
      const Operand logits = filled(type, 3, columns, std::vector<double>(std::size_t(3 * columns), 0.75));
      const Operand targets = filled(OCT_I32, 1, 3, {0, 4, 2});
      const Loss loss = run_split(rig, logits, targets, parts, 5, 1. / 3, false);
      EXPECT_NEAR(loss.sum / 3, std::log(5.), type == OCT_F64 ? 1e-14 : 1e-6) << parts;
      for (std::int64_t c = 5; c < columns; ++c) EXPECT_EQ(loss.dlogits[std::size_t(c)], 0);
    }
  }
}

TEST(DeviceLoss, AnySplitAgreesWithTheWhole) {
  Rig rig;
  for (const DType type : kTypes) {
    for (const std::int64_t parts : {1, 2, 4}) {
      for (const bool in_place : {false, true}) {
        const std::int64_t tokens = 29, columns = 212, vocabulary = 211;
        const Operand logits = random(type, tokens, columns, 1, 4);
        Operand targets = zeros(OCT_I32, 1, tokens);
        for (std::int64_t t = 0; t < tokens; ++t)
          targets.values[std::size_t(t)] = double(t % 5 == 3 ? -1 : t * 7919 % vocabulary);
        const Loss expected = reference(logits, targets, vocabulary, 1. / 23);
        const Loss loss = run_split(rig, logits, targets, parts, vocabulary, 1. / 23, in_place);
        EXPECT_NEAR(loss.sum, expected.sum, expected.sum * (type == OCT_F64 ? 1e-14 : 5e-7));
        EXPECT_LE(difference(loss.dlogits, expected.dlogits), tolerance(type));
      }
    }
  }
}

TEST(DeviceLoss, GradientIsOptional) {
  Rig rig;
  const Operand targets = filled(OCT_I32, 1, 1, {1});
  std::vector<Operand> o = {filled(OCT_F32, 1, 2, {0, 0}), targets,  filled(OCT_F32, 1, 3, {0, 2, 0}),
                            zeros(OCT_F64, 1, 8),          absent(), zeros(OCT_F64, 1, 1)};
  rig.run(OCT_LOSS, o, {.i = {0, 2, 1, 1}});
  EXPECT_NEAR(o[5].values[0], std::log(2.), 1e-15);
}

TEST(DeviceLoss, NanAndInfinityAreSeen) {
  Rig rig;
  const Operand targets = filled(OCT_I32, 1, 1, {1});
  for (const double bad : {double(NAN), double(INFINITY)}) {
    Operand logits = random(OCT_F32, 1, 40, 1);
    logits.values[17] = bad;
    for (const std::int64_t parts : {1, 2})
      EXPECT_FALSE(std::isfinite(run_split(rig, logits, targets, parts, 40, 1, false).sum));
  }
  Operand hidden = random(OCT_F32, 1, 40, 1);
  hidden.values[39] = NAN;  // beyond the vocabulary: does not exist
  EXPECT_TRUE(std::isfinite(run_split(rig, hidden, targets, 2, 39, 1, false).sum));
}

TEST(DeviceLoss, ThreadsDoNotChangeBits) {
  const Operand logits = random(OCT_F32, 300, 500, 1, 3);
  Operand targets = zeros(OCT_I32, 1, 300);
  for (std::size_t t = 0; t < 300; ++t) targets.values[t] = double(t);
  std::vector<Loss> losses;
  for (const int threads : {1, 2, 3}) {
    Rig rig(threads);
    losses.push_back(run_split(rig, logits, targets, 2, 500, 0.01, false));
  }
  for (const Loss& loss : losses) {
    EXPECT_EQ(loss.sum, losses[0].sum);
    EXPECT_EQ(loss.dlogits, losses[0].dlogits);
  }
}

}  // namespace
}  // namespace octachoron::conformance
