/// What is legal together. Where this version refuses a feature altogether, its constraints are tried
/// directly.
#include <limits>

#include "core/config/constraints.h"
#include "tests/config/fixture.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

std::string constraint_refusal(const Overrides& overrides, int ranks = 0) {
  return refusal([&] { check_constraints(completed(overrides), ranks); });
}

TEST(Validate, TheSmallestFileIsLegal) {
  EXPECT_EQ(validate_refusal({}), "");
  EXPECT_EQ(validate_refusal({}, 1), "");
  EXPECT_EQ(validate_refusal({"grid.dp=2", "grid.tp=2"}, 4), "");
}

TEST(Validate, MissingKeysAreNamedTogether) {
  ParsedParameters parsed = parse_parameter_text("[run]\nseed = 2\n", "p.ini", {});
  finalize(parsed, 256);
  EXPECT_THAT(refusal([&] { validate(parsed.values, 0); }),
              HasSubstr("run.steps, model.layers, model.hidden, model.heads, model.sequence, batch.global, "
                        "data.train are missing"));
}

TEST(Validate, ValuesSetWithoutAFileAreCheckedToo) {
  Parameters p = completed();
  p.grid.tp = 0;
  EXPECT_THAT(refusal([&] { validate(p, 0); }), HasSubstr("grid.tp = '0' is out of range"));
  p = completed();
  p.optimizer.learning_rate = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refusal([&] { validate(p, 0); }), HasSubstr("optimizer.learning_rate = 'nan'"));
  p = completed({"run.name=ok"});
  p.run.name = "not legal";
  EXPECT_THAT(refusal([&] { validate(p, 0); }), HasSubstr("run.name = 'not legal'"));
}

TEST(Validate, UnresolvedDefaultsAreABugOfTheCaller) {
  const Parameters p = parse_parameter_text(kSmall, "p.ini", {}).values;
  try {
    validate(p, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::internal);
  }
}

// D07: no size is derived from another by "whatever is left".
TEST(Validate, TheGridMustFillTheLaunch) {
  EXPECT_THAT(validate_refusal({"grid.dp=2", "grid.tp=2"}, 3),
              HasSubstr("2 x 2 x 1 x 1 = 4 but the launch has 3 ranks"));
  EXPECT_THAT(validate_refusal({}, 4), HasSubstr("1 x 1 x 1 x 1 = 1 but the launch has 4 ranks"));
  EXPECT_THAT(constraint_refusal({"grid.cp=2"}, 4),
              HasSubstr("1 x 1 x 1 x 2 = 2 but the launch has 4 ranks"));
  EXPECT_THAT(validate_refusal({"grid.dp=65536", "grid.tp=65536"}),
              HasSubstr("65536 x 65536 x 1 x 1 is more than 2147483647"));
  EXPECT_THAT(constraint_refusal(
                  {"grid.dp=2147483647", "grid.tp=2147483647", "grid.pp=2147483647", "grid.cp=2147483647"}),
              HasSubstr("is more than 2147483647"));
}

// B08
TEST(Validate, HeadsThatCannotBeSplitListUsableSizes) {
  EXPECT_THAT(
      validate_refusal({"model.heads=52", "model.hidden=832", "grid.tp=8"}),
      AllOf(HasSubstr("model.heads = 52"), HasSubstr("grid.tp = 8"), HasSubstr("among 1, 2, 4, 13, 26, 52")));
  EXPECT_EQ(validate_refusal({"model.heads=52", "model.hidden=832", "grid.tp=4"}), "");
}

// B07
TEST(Validate, KeyHeadsDivideHeadsAndSuitTheTensorGroup) {
  EXPECT_EQ(validate_refusal({"model.heads=8", "model.kv_heads=2", "grid.tp=4"}), "") << "replicated twice";
  EXPECT_EQ(validate_refusal({"model.heads=8", "model.kv_heads=8", "grid.tp=4"}), "");
  EXPECT_THAT(
      validate_refusal({"model.heads=8", "model.kv_heads=3"}),
      AllOf(HasSubstr("model.kv_heads = 3"), HasSubstr("model.heads = 8"), HasSubstr("among 1, 2, 4, 8")));
  EXPECT_THAT(validate_refusal({"model.heads=12", "model.hidden=96", "model.kv_heads=6", "grid.tp=4"}),
              AllOf(HasSubstr("model.kv_heads = 6"), HasSubstr("grid.tp = 4"),
                    HasSubstr("grid.tp among 1, 2, 3, 6, 12 or kv_heads among 1, 2, 4, 12")));
  EXPECT_THAT(parse_refusal(kSmall, {"model.heads=0"}), HasSubstr("model.heads = '0' is out of range"));
}

TEST(Validate, HeadWidths) {
  EXPECT_THAT(validate_refusal({"model.heads=3"}),
              AllOf(HasSubstr("model.hidden = 64 is not a multiple of model.heads = 3"),
                    HasSubstr("among 1, 2, 4, 8, 16, 32 or")));
  EXPECT_EQ(validate_refusal({"model.heads=3", "model.head_dim=20"}), "");
  EXPECT_THAT(validate_refusal({"model.heads=64"}), HasSubstr("64 / 64 = 1 is no legal model.head_dim"));
  EXPECT_THAT(validate_refusal({"model.hidden=1028"}),
              HasSubstr("1028 / 4 = 257 is no legal model.head_dim"));
}

TEST(Validate, FeedForwardIsSplitEvenly) {
  EXPECT_THAT(validate_refusal({"model.ffn=102", "grid.tp=4"}),
              AllOf(HasSubstr("model.ffn = 102"), HasSubstr("grid.tp = 4"), HasSubstr("100 or 104")));
  EXPECT_EQ(validate_refusal({"model.ffn=104", "grid.tp=4"}), "");
}

TEST(Validate, Gpt2HasLearnedPositionsAndBiases) {
  EXPECT_THAT(validate_refusal({"model.rope_theta=10000"}),
              HasSubstr("model.rope_theta = 10000 has no meaning"));
  EXPECT_THAT(validate_refusal({"model.qkv_bias=off"}), HasSubstr("model.qkv_bias = off is refused"));
  EXPECT_EQ(constraint_refusal({"model.family=llama", "model.rope_theta=500000"}), "");
}

TEST(Validate, TheBatchIsAMultipleOfWhatRanksRunAtOnce) {
  EXPECT_THAT(validate_refusal({"batch.global=10", "batch.micro=2", "grid.dp=2"}),
              AllOf(HasSubstr("batch.global = 10"), HasSubstr("2 x 2 = 4"), HasSubstr("8 or 12")));
  EXPECT_THAT(validate_refusal({"batch.global=3", "batch.micro=2", "grid.dp=2"}),
              ContainsRegex("batch.global = 4$"));
  EXPECT_EQ(validate_refusal({"batch.global=12", "batch.micro=2", "grid.dp=2"}), "");
}

TEST(Validate, WarmUpEndsBeforeTheDecay) {
  EXPECT_EQ(validate_refusal({"optimizer.warmup=10"}), "");
  EXPECT_THAT(validate_refusal({"optimizer.warmup=11"}),
              AllOf(HasSubstr("optimizer.warmup = 11"), HasSubstr("decay_steps = 10")));
  EXPECT_EQ(validate_refusal({"optimizer.min_learning_rate=3e-4"}), "");
  EXPECT_THAT(validate_refusal({"optimizer.min_learning_rate=4e-4"}),
              AllOf(HasSubstr("4e-4"), HasSubstr("3e-4")));
}

TEST(Validate, SequenceParallelSplitsTheTokensOfAMicroBatch) {
  const Overrides odd = {"model.sequence=15", "grid.tp=2"};
  EXPECT_THAT(validate_refusal(odd),
              AllOf(HasSubstr("1 x 15 = 15 tokens"), HasSubstr("grid.tp = 2"), HasSubstr("14 or 16")));
  EXPECT_EQ(validate_refusal({"model.sequence=15", "grid.tp=2", "batch.micro=2"}), "");
  EXPECT_EQ(validate_refusal({"model.sequence=15", "grid.tp=2", "parallel.sequence_parallel=off"}), "");
  EXPECT_EQ(validate_refusal({"model.sequence=15"}), "");
  EXPECT_THAT(constraint_refusal({"model.sequence=12", "grid.tp=4", "grid.cp=2"}),
              AllOf(HasSubstr("1 x 6 = 6 tokens"), HasSubstr("8 or 16")));
}

// D06
TEST(Validate, SequencesAreSplitIntoEqualChunks) {
  EXPECT_THAT(constraint_refusal({"model.sequence=6", "grid.cp=4"}),
              AllOf(HasSubstr("model.sequence = 6"), HasSubstr("grid.cp = 4"), HasSubstr("sequence = 8")));
  EXPECT_NE(validate_refusal({"model.sequence=6", "grid.cp=4"}, 4), "");
  EXPECT_THAT(constraint_refusal({"model.sequence=12", "grid.cp=4"}), HasSubstr("sequence = 8 or 16"))
      << "4 divides 12, but each rank holds two chunks";
  EXPECT_EQ(constraint_refusal({"model.sequence=8", "grid.cp=4"}), "");
  EXPECT_EQ(constraint_refusal({"model.sequence=7"}), "");
}

// C01: each layer is owned exactly once.
TEST(Validate, StagesOwnEachLayerOnce) {
  EXPECT_EQ(constraint_refusal({"model.layers=30", "grid.pp=4"}), "") << "the split is balanced, not equal";
  EXPECT_THAT(constraint_refusal({"model.layers=30", "grid.pp=4", "parallel.stage_layers=7,7,7,7"}),
              AllOf(HasSubstr("7,7,7,7 owns 28 of model.layers = 30")));
  EXPECT_THAT(constraint_refusal({"model.layers=10", "grid.pp=3", "parallel.stage_layers=3,3,3"}),
              HasSubstr("owns 9 of model.layers = 10"));
  EXPECT_EQ(constraint_refusal({"model.layers=10", "grid.pp=3", "parallel.stage_layers=3,4,3"}), "");
  EXPECT_THAT(constraint_refusal({"model.layers=3", "grid.pp=4"}),
              AllOf(HasSubstr("grid.pp = 4"), HasSubstr("model.layers = 3")));
  EXPECT_THAT(constraint_refusal({"model.layers=10", "grid.pp=3", "parallel.stage_layers=5,5"}),
              HasSubstr("2 entries for 3 x 1 = 3 chunks"));
  EXPECT_THAT(validate_refusal({"parallel.stage_layers=1,1"}), HasSubstr("2 entries for 1 x 1 = 1 chunks"));
  EXPECT_EQ(validate_refusal({"parallel.stage_layers=2"}), "");
  EXPECT_THAT(constraint_refusal({"grid.pp=2", "parallel.stage_layers=9223372036854775807,2"}),
              HasSubstr("does not fit 64 bits"));
}

// C02
TEST(Validate, ChunksOfInterleavedStagesOwnEachLayerOnce) {
  std::string twos = "2";
  for (int chunk = 1; chunk < 16; ++chunk) twos += ",2";
  const Overrides grid = {"model.layers=40", "grid.pp=8", "grid.virtual_stages=2",
                          "parallel.schedule=interleaved"};
  EXPECT_EQ(constraint_refusal(grid), "");
  Overrides with_twos = grid;
  with_twos.push_back("parallel.stage_layers=" + twos);
  EXPECT_THAT(constraint_refusal(with_twos), HasSubstr("owns 32 of model.layers = 40"));
  EXPECT_THAT(constraint_refusal({"grid.virtual_stages=2"}),
              HasSubstr("needs grid.pp > 1 and parallel.schedule = interleaved"));
  EXPECT_THAT(constraint_refusal({"model.layers=4", "grid.pp=2", "grid.virtual_stages=2"}),
              HasSubstr("needs grid.pp > 1 and"));
  EXPECT_THAT(constraint_refusal(
                  {"model.layers=4", "grid.pp=2", "grid.virtual_stages=3", "parallel.schedule=interleaved"}),
              HasSubstr("choose at most 2"));
}

TEST(Validate, HighPrecisionLayersAreWithinTheModel) {
  EXPECT_EQ(validate_refusal({"precision.high_precision_first=1", "precision.high_precision_last=1"}), "");
  EXPECT_THAT(validate_refusal({"precision.high_precision_first=1", "precision.high_precision_last=2"}),
              AllOf(HasSubstr("1 + 2"), HasSubstr("model.layers = 2")));
  EXPECT_THAT(validate_refusal({"precision.high_precision_first=9223372036854775807",
                                "precision.high_precision_last=9223372036854775807"}),
              HasSubstr("is more than model.layers = 2"));
}

// K11: shapes are products in 64 bits, and refused beyond.
TEST(Validate, LargeModelsFitAndAbsurdOnesAreRefused) {
  const Overrides large = {"model.vocab=128256", "model.hidden=32768", "model.heads=128", "model.layers=126",
                           "batch.global=4096"};
  EXPECT_EQ(validate_refusal(large), "") << "128256 x 32768 is more than 2^31";
  const std::vector<Overrides> absurd = {
      {"model.layers=9223372036854775807"},
      {"model.hidden=1099511627776", "model.heads=4294967296"},
      {"batch.global=9223372036854775807"},
      {"batch.global=4611686018427387904", "batch.micro=4611686018427387904", "grid.dp=2"},
      {"model.ffn=9223372036854775807"},
      {"run.steps=2147483647", "batch.global=1099511627776", "model.vocab=2", "model.ffn=2"},
  };
  for (const Overrides& overrides : absurd)
    EXPECT_THAT(validate_refusal(overrides), HasSubstr("does not fit 64 bits")) << overrides.front();
}

// An example reads no data, and gathers over tp alone.
TEST(Validate, ExamplesNeedATensorParallelGridAndNoData) {
  EXPECT_EQ(validate_refusal({"example.pattern=independent", "grid.tp=2"}, 2), "");
  EXPECT_THAT(validate_refusal({"example.pattern=independent"}),
              HasSubstr("needs a grid of tp alone (it is dp=1 tp=1 pp=1 cp=1"));
  EXPECT_THAT(validate_refusal({"example.pattern=dependent", "grid.tp=2", "grid.dp=2"}), HasSubstr("it is dp=2 tp=2"));
  EXPECT_THAT(validate_refusal({"example.pattern=wait_at_once", "grid.tp=4", "model.hidden=66", "model.head_dim=16"}),
              HasSubstr("model.hidden = 66 cannot be split over grid.tp = 4"));
  ParsedParameters parsed = parse_parameter_text("[run]\nseed = 2\n", "p.ini", {"example.pattern=dependent"});
  finalize(parsed, 256);
  EXPECT_THAT(refusal([&] { validate(parsed.values, 0); }), HasSubstr("batch.global are missing"));
}

}  // namespace
}  // namespace octachoron
