// What FP8 cannot do is refused before a program is built, in one sentence with the numbers and legal ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "tests/schedule/small_model.h"

namespace octachoron {
namespace {

using testing::HasSubstr;
using Strings = std::vector<std::string>;

// The sentence, empty if the programs are built.
std::string refusal(const Strings& overrides) {
  const Parameters parameters = small_model::fp8_parameters(overrides);
  try {
    small_model::programs(parameters);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::usage) << error.what();
    return error.what();
  }
  return "";
}

TEST(Fp8Alignment, NamesTheThreeProductsAndLegalSizes) {  // A18
  EXPECT_EQ(refusal({"model.ffn=72"}),
            "model.ffn = 72 leaves 72 of it to a rank, and the FP8 products of layers.0.mlp.fc1 need "
            "multiples of 16 "
            "(m x n x k: fprop 64 x 72 x 64, dgrad 64 x 64 x 72, wgrad 72 x 64 x 64); set model.ffn to 64 or "
            "80, or "
            "exclude the module with precision.exclude");
  EXPECT_EQ(
      refusal({"model.sequence=8"}),
      "model.sequence = 8 leaves 8 of it to a rank, and the FP8 products of layers.0.attention.qkv need "
      "multiples of 16 (m x n x k: fprop 8 x 192 x 64, dgrad 8 x 64 x 192, wgrad 192 x 64 x 8); set "
      "model.sequence to 16, or exclude the module with precision.exclude");
}

TEST(Fp8Alignment, IsThatOfTheLocalRows) {  // A19: 368 sequence / 2 = 184 = 11.5 x 16
  const Strings split{"grid.tp=2", "model.sequence=368"};
  EXPECT_EQ(
      refusal(split),
      "model.sequence = 368 leaves 184 of it to a rank, and the FP8 products of layers.0.attention.qkv need "
      "multiples of 16 (m x n x k: fprop 368 x 96 x 64, dgrad 368 x 64 x 96, wgrad 96 x 64 x 368); set "
      "model.sequence to 352 or 384, or exclude the module with precision.exclude");
  const auto with = [&](const char* more) {
    Strings overrides = split;
    overrides.push_back(more);
    return refusal(overrides);
  };
  EXPECT_EQ(with("batch.micro=2"), "");  // 368 rows of its own
  EXPECT_EQ(with("parallel.sequence_parallel=off"), "");
  for (const char* legal : {"model.sequence=352", "model.sequence=384"}) EXPECT_EQ(with(legal), "");
}

TEST(Fp8Alignment, WhatIsProposedIsLegal) {
  struct Case {
    Strings misaligned;
    const char *key, *values;
  };
  for (const Case& at : std::vector<Case>{
           {{"model.ffn=72"}, "model.ffn", "64 or 80"},
           {{"model.ffn=72", "grid.tp=2"}, "model.ffn", "64 or 96"},
           {{"model.ffn=72", "model.family=llama", "grid.tp=4"}, "model.ffn", "64"},
           {{"model.hidden=72", "model.heads=4", "model.head_dim=16"}, "model.hidden", "64 or 80"},
           {{"model.hidden=72", "model.heads=4", "grid.tp=2"}, "model.hidden", "64 or 96"},
           {{"model.head_dim=10"}, "model.head_dim", "8 or 12"},
           {{"model.head_dim=8", "grid.tp=4"}, "model.head_dim", "16"},
           {{"model.sequence=40", "grid.tp=4"}, "model.sequence", "64"}}) {
    const std::string sentence = refusal(at.misaligned);
    EXPECT_THAT(sentence, HasSubstr(text("set ", at.key, " to ", at.values)));
    std::string values = at.values;
    for (std::size_t begin = 0; begin != std::string::npos;) {
      const std::size_t end = values.find(" or ", begin);
      Strings aligned = at.misaligned;
      aligned.push_back(text(at.key, "=", values.substr(begin, end - begin)));
      EXPECT_EQ(refusal(aligned), "") << sentence;
      begin = end == std::string::npos ? end : end + 4;
    }
  }
}

TEST(Fp8Alignment, IsNotAskedOfWhatStaysOut) {
  EXPECT_EQ(refusal({"model.ffn=72", "precision.exclude=*.mlp.*"}), "");
  EXPECT_EQ(refusal({"model.ffn=72", "backend.precision=bf16"}), "");
  EXPECT_EQ(refusal({"model.vocab=50", "precision.head=fp8"}), "");  // rows of the table are padded
}

// A scale of its own on each rank would decode the bytes of others wrongly.
TEST(Fp8Reduction, MustBeOverAllWhoHoldAPart) {  // A13, A14, A16
  const auto with = [](const char* recipe, const char* axes) {
    const std::string sentence = refusal({text("backend.precision=", recipe), "grid.tp=2",
                                          "backend.plugin_path=" OCTACHORON_BINARY_DIR
                                          "/tests/plugins:" OCTACHORON_BINARY_DIR "/lib/octachoron"});
    EXPECT_EQ(sentence, text("precision '", recipe,
                             "' gives parts of 'layers.0.attention.qkv.input' scales of their own (its "
                             "amax is not reduced over all ranks that hold a part: ",
                             axes, "); choose a recipe that reduces it"));
  };
  with("no-tensor", "tp, cp, dp");
  with("no-context", "tp, cp, dp");
  with("no-data", "tp, cp, dp");
  with("alone", "tp");
}

}  // namespace
}  // namespace octachoron
