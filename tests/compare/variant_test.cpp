// Variants as the command line names them.
#include "core/compare/variant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/config/validate.h"

namespace octachoron {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Strings = std::vector<std::string>;

template <class Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::usage);
    return error.what();
  }
  return "";
}

Parameters parameters(const Strings& overrides = {}) {
  ParsedParameters parsed = parse_parameter_text(
      "[run]\nsteps = 5\n[model]\nlayers = 2\nhidden = 32\nheads = 4\nsequence = 16\nvocab = "
      "64\n[batch]\nglobal = 8\n"
      "[data]\ntrain = some.txt\n",
      "variant.ini", overrides);
  finalize(parsed, 0);
  return parsed.values;
}

std::string refusal_of(const std::vector<Variant>& variants, int ranks = 4) {
  return refusal([&] { refuse_incomparable(variants, ranks); });
}

TEST(Variant, IsANameAndWhatDiffers) {
  const VariantSpec plain = parse_variant("reference");
  EXPECT_EQ(plain.name, "reference");
  EXPECT_THAT(plain.overrides, IsEmpty());
  const VariantSpec spec = parse_variant("wide-1.5_x;grid.tp=2;precision.exclude=layers.0.*,head;");
  EXPECT_EQ(spec.name, "wide-1.5_x");
  EXPECT_THAT(spec.overrides, ElementsAre("grid.tp=2", "precision.exclude=layers.0.*,head"));
}

TEST(Variant, MayStandInAFile) {
  const auto path =
      std::filesystem::temp_directory_path() / ("octachoron-variant-" + std::to_string(::getpid()));
  std::ofstream(path) << "# half\n[grid]\ntp = 2   # two\n[optimizer]\nclip = 0\n";
  const VariantSpec spec = parse_variant("half=" + path.string() + ";batch.micro=2");
  EXPECT_EQ(spec.name, "half");
  EXPECT_THAT(spec.overrides, ElementsAre("grid.tp=2", "optimizer.clip=0", "batch.micro=2"));
  std::filesystem::remove(path);
  EXPECT_THAT(refusal([&] { parse_variant("half=" + path.string()); }), HasSubstr("No such file"));
}

TEST(Variant, NeedsALegalName) {
  for (const char* text : {"", ";grid.tp=2", "two words;grid.tp=2", "=file.ini", "a/b"})
    EXPECT_THAT(refusal([&] { parse_variant(text); }), HasSubstr("is no name")) << text;
}

TEST(Variant, WhatCannotBeComparedIsRefused) {
  const Variant reference{"one", parameters()};
  EXPECT_THAT(refusal_of({}), HasSubstr("given 0 variants"));
  EXPECT_THAT(refusal_of({reference}), HasSubstr("given 1 variant "));
  EXPECT_THAT(refusal_of({reference, reference}), HasSubstr("called 'one'"));
  EXPECT_EQ(refusal_of({reference, {"two", parameters({"grid.tp=4", "optimizer.learning_rate=1"})}}), "");
  EXPECT_THAT(refusal_of({reference, {"two", parameters({"grid.tp=4", "grid.dp=2"})}}),
              HasSubstr("needs 8 ranks (its grid is dp=2 tp=4 pp=1 cp=1, the launch has 4"));
  for (const char* other : {"run.seed=2", "batch.global=16", "model.layers=3", "model.family=llama",
                            "data.train=b.txt", "model.init_std=1"})
    EXPECT_THAT(refusal_of({reference, {"two", parameters({other})}}), HasSubstr("'two' cannot be compared"))
        << other;
}

TEST(Variant, KnowsWhatChanged) {
  const Parameters a = parameters({"plugin.mine.key=1"});
  EXPECT_THAT(changed_keys(a, parameters({"plugin.mine.key=1", "run.name=x", "engine.threads=2"})),
              IsEmpty());
  EXPECT_THAT(changed_keys(a, parameters({"plugin.mine.key=2", "grid.tp=2"})),
              ElementsAre("grid.tp", "plugin.mine.key"));
  EXPECT_TRUE(is_split_only({"grid.tp", "parallel.sequence_parallel", "batch.micro"}));
  EXPECT_FALSE(is_split_only({"grid.tp", "backend.precision"}));
}

}  // namespace
}  // namespace octachoron
