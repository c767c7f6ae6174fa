#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/config/fixture.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Parse, ValuesAndTheirOrigins) {
  const ParsedParameters parsed =
      parse_parameter_text(kSmall, "in/small.ini", {"model.layers=3", "grid.tp = 2"});
  EXPECT_EQ(parsed.values.run.steps, 10);
  EXPECT_EQ(parsed.values.model.layers, 3) << "--set wins over the file";
  EXPECT_EQ(parsed.values.grid.tp, 2);
  EXPECT_EQ(parsed.values.run.name, "small");
  EXPECT_EQ(parsed.origins.at("run.steps"), "in/small.ini:2");
  EXPECT_EQ(parsed.origins.at("model.layers"), "--set");
  EXPECT_FALSE(parsed.origins.contains("run.name"));
}

TEST(Parse, CarriageReturnsAndTrailingBlanksChangeNothing) {
  std::string crlf;
  for (char c : std::string(kSmall)) crlf += c == '\n' ? std::string(" \t\r\n") : std::string(1, c);
  EXPECT_EQ(parse_parameter_text(crlf, "small.ini", {}).values,
            parse_parameter_text(kSmall, "small.ini", {}).values);
}

// H01: nothing unknown, repeated or half-read may leave a default in force.
TEST(Parse, UnknownKeysAreNamedWithTheNearestKnownOne) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[optimizer]\nlearning_rat = 1e-3\n", "optimizer.learning_rate"},
      {"[run]\nlearning_rate = 1e-3\n", "optimizer.learning_rate"},
      {"[run]\nlearning_rat = 1e-3\n", "optimizer.learning_rate"},
      {"[model]\nnum-layers = 4\n", "model.layers"},
      {"[model]\nnum_layers = 4\n", "model.layers"},
      {"[modle]\nlayers = 4\n", "model.layers"},
      {"[model]\nkv-heads = 4\n", "model.kv_heads"},
      {"[model]\nHidden = 4\n", "model.hidden"},
      {"[grid]\nvirtual_stage = 4\n", "grid.virtual_stages"},
      {"[checkpoint]\nformat = x\n", "precision.format or data.format"},
  };
  for (const auto& [text, nearest] : cases)
    EXPECT_THAT(parse_refusal(text),
                AllOf(HasSubstr("p.ini:2: unknown key "), HasSubstr("did you mean " + nearest + "?")))
        << text;
}

// H02: the same through the command line.
TEST(Parse, UnknownKeysOnTheCommandLineAreRefused) {
  EXPECT_THAT(parse_refusal(kSmall, {"optimizer.learning_rat=1"}),
              HasSubstr("--set: unknown key optimizer.learning_rat"));
  EXPECT_THAT(parse_refusal(kSmall, {"steps=1"}), HasSubstr("did you mean run.steps or trace.steps?"));
  EXPECT_THAT(parse_refusal(kSmall, {"run.steps"}), HasSubstr("--set 'run.steps' sets nothing"));
  EXPECT_THAT(parse_refusal(kSmall, {"=5"}), HasSubstr("--set '=5' sets nothing"));
  EXPECT_THAT(parse_refusal(kSmall, {"run.steps="}), HasSubstr("--set: run.steps has no value"));
  EXPECT_THAT(parse_refusal(kSmall, {"run.steps=1,000"}),
              HasSubstr("--set: run.steps = '1,000' is not a whole number"));
}

TEST(Parse, RepeatedKeysAreRefusedWithBothLines) {
  EXPECT_THAT(parse_refusal("[run]\nsteps = 1\n[model]\nlayers = 2\n[run]\nsteps = 1\n"),
              HasSubstr("p.ini:6: run.steps is given twice (first at p.ini:2)"));
  EXPECT_THAT(parse_refusal("[plugin.x]\na = 1\na = 1\n"),
              HasSubstr("p.ini:3: plugin.x.a is given twice (first at p.ini:2)"));
  EXPECT_THAT(parse_refusal(kSmall, {"run.steps=5", "run.steps=6"}),
              HasSubstr("--set: run.steps is given twice"));
}

TEST(Parse, ValuesThatDoNotParseWholeAreRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[optimizer]\nlearning_rate = 1e-3x\n", "'1e-3x' is not a finite number (legal: >= 0)"},
      {"[run]\nsteps = 1,000\n", "'1,000' is not a whole number (legal: 0 .. 2147483647)"},
      {"[run]\nsteps =\n", "run.steps has no value"},
      {"[run]\nsteps = 1e3\n", "'1e3' is not a whole number"},
      {"[run]\nseed = -1\n", "'-1' is not a whole number in range"},
      {"[run]\nwall_limit = 90\n", "'90' is not a length of time"},
      {"[data]\nrepeat = yes\n", "'yes' is not a switch"},
      {"[data]\ntrain = a,,b\n", "'a,,b' is not such a list"},
      {"[precision]\nformat = e4m4\n", "'e4m4' is not known (legal: hybrid, e4m3); choose e4m3"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_THAT(parse_refusal(text), AllOf(HasSubstr("p.ini:2: "), HasSubstr(expected))) << text;
}

TEST(Parse, TheFirstEqualsSignOfAnOverrideSplits) {
  EXPECT_EQ(parse_parameter_text(kSmall, "small.ini", {"run.output=a=b"}).values.run.output, "a=b");
}

TEST(Parse, OverridesThatAFileCannotHoldAreRefused) {
  for (const char* value : {"a # b", "a ;b", "a\nb = 1"})
    EXPECT_THAT(parse_refusal(kSmall, {std::string("run.output=") + value}),
                HasSubstr("cannot stand in a parameter file"));
}

TEST(Parse, PluginSectionsAreCollectedForThePlugin) {
  const Parameters p = parse_parameter_text("[plugin.my-recipe]\nwindow = 5\nMode = a b\n", "p.ini",
                                            {"plugin.other.x=1", "plugin.my-recipe.window=6"})
                           .values;
  const std::map<std::string, std::string> expected = {
      {"my-recipe.window", "6"}, {"my-recipe.Mode", "a b"}, {"other.x", "1"}};
  EXPECT_EQ(p.plugin, expected);
  for (const char* text : {"[plugin.]\nx = 1\n", "[plugin.Big]\nx = 1\n", "[plugin.a_b]\nx = 1\n"})
    EXPECT_THAT(parse_refusal(text), HasSubstr("names no plugin's key")) << text;
  EXPECT_THAT(parse_refusal("[plugin]\nx = 1\n"), HasSubstr("p.ini:2: plugin.x names no plugin's key"));
}

TEST(Parse, AFileThatCannotBeReadIsNamed) {
  EXPECT_THAT(refusal([] { parse_parameters("/nowhere/x.ini", {}); }),
              HasSubstr("cannot read parameter file '/nowhere/x.ini' (No such file or directory)"));
  EXPECT_THAT(refusal([] { parse_parameters("/tmp", {}); }), HasSubstr("(it is a folder)"));
  const auto empty =
      std::filesystem::temp_directory_path() / ("octachoron-empty-" + std::to_string(getpid()) + ".ini");
  std::ofstream(empty).close();
  EXPECT_EQ(refusal([&] { EXPECT_TRUE(parse_parameters(empty, {}).origins.empty()); }), "");
  std::filesystem::remove(empty);
}

}  // namespace
}  // namespace octachoron
