// What the FP8 recipes of this build answer for each module, operand and pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/recipe.h"

namespace octachoron {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kTp = 1, kCp = 2, kDp = 4;
constexpr int kLayers = 4;

struct Log {
  std::vector<std::string> lines;
};
void append(void* user, std::int32_t level, const char* line) {
  EXPECT_EQ(level, 1) << "a warning";
  static_cast<Log*>(user)->lines.emplace_back(line);
}

class Fp8Recipes : public testing::TestWithParam<std::string> {
 protected:
  Recipe recipe(const std::string& options) {
    return {{find_plugin(OCT_PRECISION, GetParam(), OCTACHORON_BINARY_DIR "/lib/octachoron"), OCT_PRECISION},
            {sizeof(oct_host), &log_, 0, 1, 0, 1, append, nullptr},
            options};
  }
  bool delayed() const { return GetParam() == "fp8-delayed"; }
  static oct_quant_spec ask(const Recipe& recipe, int layer, const std::string& module,
                            oct_pass pass = OCT_FPROP, oct_operand_role operand = OCT_INPUT) {
    return recipe.spec({sizeof(oct_quant_query), layer, kLayers, module.c_str(), pass, operand});
  }
  static std::string why_not(const Recipe& recipe, int layer, const std::string& module) {
    const oct_quant_spec spec = ask(recipe, layer, module);
    EXPECT_EQ(spec.quantized == 0, spec.reason[0] != 0);
    return spec.reason;
  }
  Log log_;
};
INSTANTIATE_TEST_SUITE_P(, Fp8Recipes, testing::Values("fp8-delayed", "fp8-current"),
                         [](const auto& info) { return info.param.substr(4); });

TEST_P(Fp8Recipes, StoresBf16BetweenOperators) {
  const Recipe r = recipe("");
  EXPECT_EQ(r.name(), GetParam());
  EXPECT_EQ(r.storage(OCT_STORAGE_WEIGHT), OCT_BF16);
  EXPECT_EQ(r.storage(OCT_STORAGE_ACTIVATION), OCT_BF16);
  for (const oct_storage role : {OCT_STORAGE_MASTER, OCT_STORAGE_GRADIENT, OCT_STORAGE_STATISTIC})
    EXPECT_EQ(r.storage(role), OCT_F32);
}

TEST_P(Fp8Recipes, FormatsByOperandAndAccumulationByPass) {
  for (const bool hybrid : {true, false}) {
    const Recipe r = recipe(hybrid ? "" : "format=e4m3");
    for (const oct_pass pass : {OCT_FPROP, OCT_DGRAD, OCT_WGRAD})
      for (const oct_operand_role operand : {OCT_INPUT, OCT_WEIGHT, OCT_GRAD_OUTPUT}) {
        const oct_quant_spec spec = ask(r, 1, "layers.1.mlp.fc1", pass, operand);
        EXPECT_EQ(spec.quantized, 1);
        EXPECT_EQ(spec.format, hybrid && operand == OCT_GRAD_OUTPUT ? OCT_E5M2 : OCT_E4M3);
        EXPECT_EQ(spec.fast_accumulation, pass == OCT_FPROP);
        EXPECT_EQ(spec.granularity, OCT_PER_TENSOR);
        EXPECT_EQ(spec.scale_type, OCT_SCALE_F32);
        EXPECT_EQ(spec.rounding, OCT_NEAREST_EVEN);
      }
  }
}

TEST_P(Fp8Recipes, WhereScalesComeFrom) {
  const oct_quant_spec spec =
      ask(recipe("margin=2\namax_history=7\namax_algorithm=most_recent"), 0, "layers.0.attention.qkv");
  EXPECT_EQ(spec.margin, 2);
  EXPECT_EQ(spec.scale_source, delayed() ? OCT_SCALE_HISTORY : OCT_SCALE_CURRENT);
  EXPECT_EQ(spec.amax_axes, delayed() ? kTp | kCp | kDp : kTp);
  EXPECT_EQ(spec.history, delayed() ? 7 : 1);
  EXPECT_EQ(spec.amax_algorithm, delayed() ? OCT_AMAX_MOST_RECENT : OCT_AMAX_MAX);
  if (delayed()) {
    EXPECT_EQ(ask(recipe("amax_algorithm=frozen"), 0, "m").amax_algorithm, OCT_AMAX_FROZEN);
    EXPECT_EQ(ask(recipe(""), 0, "m").amax_algorithm, OCT_AMAX_MAX);
    EXPECT_EQ(ask(recipe(""), 0, "m").history, 16);
  }
}

TEST_P(Fp8Recipes, LayersThatStayInHighPrecision) {
  const Recipe r = recipe("high_precision_first=1\nhigh_precision_last=2");
  EXPECT_THAT(why_not(r, 0, "layers.0.mlp.fc1"), HasSubstr("precision.high_precision_first = 1"));
  EXPECT_EQ(why_not(r, 1, "layers.1.mlp.fc1"), "");
  for (const int layer : {2, 3})
    EXPECT_THAT(why_not(r, layer, "layers." + std::to_string(layer) + ".mlp.fc1"),
                HasSubstr("precision.high_precision_last = 2"));
}

TEST_P(Fp8Recipes, ExcludedModules) {
  const Recipe r = recipe("exclude=layers.2.*, *.mlp.down,head\nhead=fp8");
  EXPECT_THAT(why_not(r, 2, "layers.2.attention.out"), HasSubstr("precision.exclude has layers.2.*"));
  EXPECT_THAT(why_not(r, 0, "layers.0.mlp.down"), HasSubstr("*.mlp.down"));
  EXPECT_THAT(why_not(r, -1, "head"), HasSubstr("precision.exclude"));
  EXPECT_EQ(why_not(r, 0, "layers.0.mlp.gate_up"), "");
  EXPECT_EQ(why_not(r, 3, "layers.3.attention.out"), "");
}

TEST_P(Fp8Recipes, TheHeadByChoice) {
  EXPECT_THAT(why_not(recipe(""), -1, "head"), HasSubstr("precision.head"));
  EXPECT_EQ(why_not(recipe("head=fp8\nhigh_precision_first=2\nhigh_precision_last=2"), -1, "head"), "")
      << "no layer";
}

/// A reason as long as a glob may be is cut, not spilt.
TEST_P(Fp8Recipes, LongGlobs) {
  EXPECT_EQ(why_not(recipe("exclude=" + std::string(500, '*')), 0, "layers.0.mlp.fc1").size(),
            sizeof(oct_quant_spec::reason) - 1);
}

TEST_P(Fp8Recipes, KeysWithoutEffectAreNamedOnce) {
  recipe("margin=1\nformat=e4m3\nhead=fp8\nexclude=head\nhigh_precision_first=1\nfallback=bf16");
  EXPECT_THAT(log_.lines, testing::IsEmpty());
  recipe("amax_history=8\namax_algorithm=frozen\nmargin=1");
  if (delayed()) {
    EXPECT_THAT(log_.lines, testing::IsEmpty());
  } else {
    EXPECT_THAT(log_.lines, testing::ElementsAre(testing::AllOf(
                                HasSubstr("precision.amax_history, precision.amax_algorithm has "
                                          "no effect (this recipe keeps no history)"),
                                testing::Not(HasSubstr("margin")))));
  }
}

TEST_P(Fp8Recipes, NoKeysOfTheirOwn) {
  try {
    recipe(GetParam() + ".window=3");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::usage);
    EXPECT_THAT(error.what(), HasSubstr(".window"));
  }
}

}  // namespace
}  // namespace octachoron
