// What every precision plugin answers, whatever its recipe. Another one is tested with
// OCTACHORON_TEST_PRECISION.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "core/plugin/recipe.h"

namespace octachoron {
namespace {

using testing::HasSubstr;

const oct_host kHost{sizeof(oct_host), nullptr, 0, 1, 0, 1, nullptr, nullptr};
const char* kKeys =
    "format=hybrid\nmargin=0\namax_history=16\namax_algorithm=max\nhead=bf16\nexclude=\nhigh_precision_first="
    "0\n"
    "high_precision_last=0\nfallback=refuse\n";

std::vector<std::string> recipes() {
  const char* chosen = std::getenv("OCTACHORON_TEST_PRECISION");
  return chosen == nullptr ? std::vector<std::string>{"fp32", "fp64", "bf16", "fp8-delayed", "fp8-current"} : std::vector<std::string>{chosen};
}

class Precision : public testing::TestWithParam<std::string> {
 protected:
  PluginLibrary library() const {
    return {find_plugin(OCT_PRECISION, GetParam(), OCTACHORON_BINARY_DIR "/lib/octachoron"), OCT_PRECISION};
  }
  /// The sentence with which options are refused, empty if they are not.
  std::string refusal(const std::string& options) const {
    try {
      Recipe recipe(library(), kHost, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::usage);
      return error.what();
    }
    return "";
  }
};
INSTANTIATE_TEST_SUITE_P(Recipes, Precision, testing::ValuesIn(recipes()), [](const auto& info) {
  std::string name = info.param.substr(info.param.rfind('/') + 1);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

TEST_P(Precision, MastersAndStatisticsAreAtLeastFp32) {
  const Recipe recipe(library(), kHost, "");
  for (oct_storage role : {OCT_STORAGE_MASTER, OCT_STORAGE_GRADIENT, OCT_STORAGE_STATISTIC})
    EXPECT_THAT(recipe.storage(role), testing::AnyOf(OCT_F32, OCT_F64));
  EXPECT_EQ(library().info().table, library().info().table) << "static data";
}

TEST_P(Precision, EveryOperandHasAnAnswer) {
  const Recipe recipe(library(), kHost, kKeys);
  for (int layer : {-1, 0, 1, 11})
    for (oct_pass pass : {OCT_FPROP, OCT_DGRAD, OCT_WGRAD})
      for (oct_operand_role operand : {OCT_INPUT, OCT_WEIGHT, OCT_GRAD_OUTPUT}) {
        const std::string module = layer < 0 ? "head" : "layers." + std::to_string(layer) + ".mlp.fc1";
        const oct_quant_query query{sizeof(oct_quant_query), layer, 12, module.c_str(), pass, operand};
        const oct_quant_spec spec = recipe.spec(query), again = recipe.spec(query);
        EXPECT_EQ(std::memcmp(&spec, &again, sizeof spec), 0) << "an answer is a function of the question";
        EXPECT_EQ(spec.struct_size, sizeof spec);
        if (spec.quantized == 0) {
          EXPECT_STRNE(spec.reason, "") << "the table printed at start says why";
          continue;
        }
        EXPECT_THAT(spec.format, testing::AnyOf(OCT_E4M3, OCT_E5M2));
        EXPECT_THAT(spec.granularity,
                    testing::AllOf(testing::Ge(OCT_PER_TENSOR), testing::Le(OCT_PER_BLOCK)));
        EXPECT_GE(spec.history, 1);
        EXPECT_LT(spec.amax_axes, 16u);
      }
}

TEST_P(Precision, AcceptsTheKeysOfTheContract) {
  EXPECT_EQ(refusal(""), "");
  EXPECT_EQ(refusal(kKeys), "");
  EXPECT_EQ(refusal("exclude=layers.0.*,head\nmargin=16\namax_algorithm=most_recent\nformat=e4m3\nhead=fp8"),
            "");
}

TEST_P(Precision, RefusesByName) {
  EXPECT_THAT(refusal("amax_histroy=16"), HasSubstr("amax_histroy"));
  EXPECT_THAT(refusal("plugin.other.key=1"), HasSubstr("plugin.other.key"));
  EXPECT_THAT(refusal("no equals sign"), HasSubstr("no equals sign"));
  for (const char* wrong : {"margin=17", "margin=-1", "margin=1x", "margin=", "amax_history=0",
                            "amax_history=4097", "amax_algorithm=mean", "format=e3m4", "head=fp16",
                            "high_precision_first=-1", "high_precision_last=two", "fallback=maybe"}) {
    const std::string key = std::string(wrong).substr(0, std::string(wrong).find('='));
    EXPECT_THAT(refusal(wrong), HasSubstr("precision." + key)) << wrong;
  }
}

TEST(Uniform, OneTypeForEverythingAndTheReasonSaysSo) {
  for (const auto& [name, type] : {std::pair{"fp32", OCT_F32}, std::pair{"fp64", OCT_F64}}) {
    const Recipe recipe(
        {find_plugin(OCT_PRECISION, name, OCTACHORON_BINARY_DIR "/lib/octachoron"), OCT_PRECISION}, kHost,
        "");
    EXPECT_EQ(recipe.name(), name);
    for (int role = 0; role < OCT_STORAGE_ROLES; ++role) EXPECT_EQ(recipe.storage(oct_storage(role)), type);
    const oct_quant_spec spec =
        recipe.spec({sizeof(oct_quant_query), 0, 1, "layers.0.mlp.fc1", OCT_FPROP, OCT_INPUT});
    EXPECT_EQ(spec.quantized, 0);
    EXPECT_EQ(spec.reason, std::string(name) + " by recipe");
  }
}

}  // namespace
}  // namespace octachoron
