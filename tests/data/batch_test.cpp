#include "core/data/batch_reader.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/data/scratch.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TokenData counting_data(const Scratch& files, int tokens, std::int64_t sequence) {
  return TokenData({files.write("tokens", counting(tokens))}, "text", sequence, 256);
}

// First ids of all rows of the global batch, over all ranks; sorted.
std::vector<std::int32_t> first_ids(const TokenData& data, BatchShape shape, std::int64_t consumed) {
  const SampleOrder order(data.samples(), 2);
  std::vector<std::int32_t> out;
  RankBatch batch;
  for (shape.rank = 0; shape.rank < shape.dp; ++shape.rank) {
    training_batch(data, order, shape, consumed, batch);
    EXPECT_EQ(std::int64_t(batch.ids.size()), shape.global / shape.dp * data.sequence());
    EXPECT_EQ(batch.valid_targets * shape.dp, batch.global_valid_targets);
    for (std::size_t i = 0; i < batch.ids.size(); i += std::size_t(data.sequence()))
      out.push_back(batch.ids[i]);
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Batch, EveryGridConsumesTheSameSamples) {  // E02
  const Scratch files;
  const TokenData data = counting_data(files, 200, 4);
  const auto reference = first_ids(data, {.global = 12, .micro = 12, .dp = 1, .rank = 0}, 24);
  for (const BatchShape& shape : {BatchShape{12, 1, 1}, {12, 2, 3}, {12, 1, 4}, {12, 6, 2}})
    EXPECT_EQ(first_ids(data, shape, 24), reference);
}

TEST(Batch, PassesConsumeEachSampleOnce) {  // F11
  const Scratch files;
  const TokenData data = counting_data(files, 4 * 24 + 1, 4);
  std::vector<std::int32_t> seen;
  for (std::int64_t step = 0; step < 4; ++step) {
    const auto ids = first_ids(data, {.global = 6, .micro = 3, .dp = 2, .rank = 0}, step * 6);
    seen.insert(seen.end(), ids.begin(), ids.end());
  }
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(seen.size(), 24u);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], std::int32_t(4 * i));
}

TEST(Batch, PlacesFollowTheFormula) {
  const BatchShape shape{.global = 12, .micro = 2, .dp = 3, .rank = 1};
  EXPECT_EQ(shape.micro_batches(), 2);
  EXPECT_EQ(shape.position(100, 1, 1), 100 + (1 * 3 + 1) * 2 + 1);
}

TEST(Batch, ValidationCountsEachTargetOnceOnAnyGrid) {  // E01
  const Scratch files;
  const TokenData data = counting_data(files, 43, 4);  // 42 targets: 10 whole samples and one of 2
  for (const BatchShape& whole : {BatchShape{4, 4, 1}, {4, 1, 2}, {8, 2, 2}}) {
    std::int64_t targets = 0, global = 0;
    std::vector<int> times(43);
    BatchShape shape = whole;
    RankBatch batch;
    EXPECT_EQ(validation_batches(data, shape), whole.global == 4 ? 3 : 2);
    for (std::int64_t b = 0; b < validation_batches(data, shape); ++b)
      for (shape.rank = 0; shape.rank < shape.dp; ++shape.rank) {
        validation_batch(data, shape, b, batch);
        targets += batch.valid_targets;
        if (shape.rank == 0) global += batch.global_valid_targets;
        for (const std::int32_t target : batch.targets)
          if (target != kIgnoredTarget) ++times[std::size_t(target)];
      }
    EXPECT_EQ(targets, 42);
    EXPECT_EQ(global, 42);
    EXPECT_EQ(times[0], 0);  // the first token is no target
    for (std::size_t token = 1; token < times.size(); ++token) EXPECT_EQ(times[token], 1);
  }
}

TEST(Batch, RunOutIsRefusedWhereRepeatIsOff) {  // G07
  const Scratch files;
  const TokenData data = counting_data(files, 101, 4);  // 25 samples
  EXPECT_EQ(describe_passes(data, 0, 5, 5, false), "5 steps need 100 tokens, 100 are there: 1 passes");
  EXPECT_EQ(describe_passes(data, 10, 3, 5, false), "3 steps after 10 samples need 100 tokens, 100 are there: 1 passes");
  EXPECT_THAT(refusal(ExitStatus::data, [&] { describe_passes(data, 15, 3, 5, false); }), HasSubstr("at most 2 steps"));
  EXPECT_EQ(describe_passes(data, 0, 20, 5, true), "20 steps need 400 tokens, 100 are there: 4 passes");
  EXPECT_THAT(refusal(ExitStatus::data, [&] { describe_passes(data, 0, 6, 5, false); }),
              AllOf(HasSubstr("120 tokens, 100 are there"), HasSubstr("at most 5 steps")));
}

TEST(BatchReader, GivesWhatIsAskedForWhateverWasReadAhead) {
  const Scratch files;
  const TokenData data = counting_data(files, 200, 4);
  const SampleOrder order(data.samples(), 2);
  const BatchShape shape{.global = 6, .micro = 3, .dp = 1, .rank = 0};
  BatchReader reader(data, order, shape);
  RankBatch expected, read;
  const auto expect = [&](std::int64_t samples) {
    training_batch(data, order, shape, samples, expected);
    reader.read(samples, read);
    EXPECT_EQ(read.ids, expected.ids) << samples;
    EXPECT_EQ(read.targets, expected.targets) << samples;
  };
  expect(0);
  reader.read_ahead(6);
  expect(6);
  reader.read_ahead(12);
  expect(30);  // another than was read ahead
  reader.read_ahead(36);
  reader.read_ahead(42);
  expect(36);
  expect(42);
}

}  // namespace
}  // namespace octachoron
