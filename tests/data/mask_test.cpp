// Loss masks, documents and vocabularies of token files, as samples and batches see them.
#include <gmock/gmock.h>

#include "core/data/batch.h"
#include "tests/data/hdf5_fixture.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Mask, IgnoresTargetsAndKeepsIds) {
  const Scratch files;
  const auto path = write_hdf5(files, "t.h5",
                               {.tokens = Values{.numbers = ascending(100, 11)},
                                .loss_mask = mask_of({0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1}),
                                .document_offsets = offsets_of({0, 3, 9})});
  const TokenData data({path}, "auto", 4, 200);
  std::vector<std::int32_t> ids(4), targets(4);
  data.sample(0, false, ids.data(), targets.data());
  EXPECT_THAT(ids, ElementsAre(100, 101, 102, 103)) << "the document that begins at 103 makes no difference";
  EXPECT_THAT(targets, ElementsAre(101, -1, 103, 104));
  data.sample(1, false, ids.data(), targets.data());
  EXPECT_THAT(targets, ElementsAre(-1, -1, -1, -1));
  data.sample(2, true, ids.data(), targets.data());
  EXPECT_THAT(ids, ElementsAre(108, 109, 0, 0));
  EXPECT_THAT(targets, ElementsAre(-1, 110, -1, -1));
  EXPECT_EQ(data.valid_targets(0, 1), 3);
  EXPECT_EQ(data.valid_targets(1, 1), 0);
  EXPECT_EQ(data.valid_targets(0, 9), 4);
  EXPECT_EQ(data.valid_targets(5, 2), 0);
  EXPECT_THAT(data.describe(), HasSubstr("with a loss mask"));
}

TEST(Mask, MayStandInOneOfSeveralFiles) {
  const Scratch files;
  const auto plain = files.write("plain.txt", "\1\1\2\3\4");
  const auto masked = write_hdf5(files, "m.h5",
                                 {.tokens = Values{.numbers = ascending(5, 4), .type = H5T_STD_U8LE},
                                  .loss_mask = mask_of({0, 1, 1, 0})});
  const TokenData data({plain, masked}, "auto", 4, 256);
  std::vector<std::int32_t> ids(4), targets(4);
  data.sample(1, false, ids.data(), targets.data());
  EXPECT_THAT(ids, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(targets, ElementsAre(-1, 6, 7, -1));
  EXPECT_EQ(data.valid_targets(0, 2), 6);
}

TEST(Mask, ThatLeavesNothingIsRefused) {
  const Scratch files;
  // The first token is no target: its 1 does not help.
  const auto path =
      write_hdf5(files, "t.h5",
                 {.tokens = Values{.numbers = ascending(0, 6)}, .loss_mask = mask_of({1, 0, 0, 0, 0, 0})});
  EXPECT_THAT(refusal(ExitStatus::data, [&] { TokenData({path}, "auto", 4, 256); }),
              AllOf(HasSubstr(path), HasSubstr("has no target")));
}

TEST(Mask, TargetsOfAGlobalBatchAreCountedOnceOnAnyGrid) {  // E01
  const Scratch files;
  std::vector<std::uint64_t> mask;
  for (int i = 0; i < 97; ++i) mask.push_back(i % 5 == 1 || i % 7 == 2 || (i > 40 && i < 60));
  const auto path =
      write_hdf5(files, "t.h5", {.tokens = Values{.numbers = ascending(0, 97)}, .loss_mask = mask_of(mask)});
  const TokenData data({path}, "auto", 4, 97);
  const SampleOrder order(data.samples(), 2);
  std::int64_t all = 0;
  for (std::int64_t step = 0; step < 2; ++step) {  // one pass of 24 samples
    std::vector<std::int64_t> counts;
    for (const BatchShape& whole : {BatchShape{12, 12, 1}, {12, 2, 3}, {12, 1, 4}}) {
      BatchShape shape = whole;
      RankBatch batch;
      std::int64_t own = 0;
      for (shape.rank = 0; shape.rank < shape.dp; ++shape.rank) {
        training_batch(data, order, shape, step * 12, batch);
        own += batch.valid_targets;
        counts.push_back(batch.global_valid_targets);
      }
      EXPECT_EQ(own, counts.front());
    }
    EXPECT_THAT(counts, testing::Each(counts.front()));
    all += counts.front();
  }
  EXPECT_EQ(all, std::count(mask.begin() + 1, mask.end(), 1u));
}

TEST(Vocabulary, IsTheFiles) {
  const Scratch files;
  const Values tokens{.numbers = ascending(0, 6)};
  const auto a = write_hdf5(files, "a.h5", {.tokens = tokens, .vocab_size = 50257}),
             b = write_hdf5(files, "b.h5", {.tokens = tokens, .vocab_size = 32000}),
             silent = write_hdf5(files, "silent.h5", {.tokens = tokens}),
             plain = files.write("plain", "text");
  EXPECT_EQ(data_vocabulary({a}, "auto"), 50257);
  EXPECT_EQ(data_vocabulary({silent, a}, "auto"), 50257);
  EXPECT_EQ(data_vocabulary({silent}, "auto"), 0);
  EXPECT_EQ(data_vocabulary({plain}, "auto"), 256);
  for (const auto& [one, two] : {std::pair{a, b}, {plain, b}}) {
    const auto names_both = AllOf(HasSubstr(one), HasSubstr(two), HasSubstr("32000"));
    EXPECT_THAT(refusal(ExitStatus::data, [&] { data_vocabulary({one, silent, two}, "auto"); }), names_both);
    EXPECT_THAT(refusal(ExitStatus::data,
                        [&] {
                          TokenData({one, silent, two}, "auto", 4, 60000);
                        }),
                names_both);
  }
}

TEST(Vocabulary, OfFilesThatAreNotThere) {
  const Scratch files;
  EXPECT_EQ(data_vocabulary({files.path("no.txt")}, "auto", true), 256);
  EXPECT_EQ(data_vocabulary({files.path("no.h5")}, "auto", true), 0);
  EXPECT_EQ(data_vocabulary({files.path("no.txt")}, "hdf5", true), 0);
  EXPECT_THAT(refusal(ExitStatus::data, [&] { data_vocabulary({files.path("no.txt")}, "auto"); }),
              HasSubstr("no.txt"));
}

}  // namespace
}  // namespace octachoron
