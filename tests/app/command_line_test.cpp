#include "app/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace octachoron {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Arguments = std::vector<std::string>;

std::string refusal(const Arguments& arguments) {
  try {
    parse_command_line(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::usage);
    return error.what();
  }
  return "";
}

TEST(CommandLine, Train) {
  const CommandLine line =
      parse_command_line({"train", "--set", "run.steps=5", "a.ini", "--set=grid.tp=2", "--check"});
  EXPECT_EQ(line.command, "train");
  EXPECT_EQ(line.parameter_file, "a.ini");
  EXPECT_THAT(line.overrides, ElementsAre("run.steps=5", "grid.tp=2"));
  EXPECT_TRUE(line.check);
  EXPECT_TRUE(line.positional.empty());
  EXPECT_FALSE(parse_command_line({"train", "a.ini"}).check);
}

TEST(CommandLine, ValuesMayBeginWithADash) {
  EXPECT_THAT(parse_command_line({"train", "a.ini", "--set", "optimizer.clip=-1"}).overrides,
              ElementsAre("optimizer.clip=-1"));
  EXPECT_EQ(parse_command_line({"train", "--", "-a.ini"}).parameter_file, "-a.ini");
}

TEST(CommandLine, Plan) {
  const CommandLine line =
      parse_command_line({"plan", "a.ini", "--ranks", "8", "--json", "o.json", "--set", "x.y=1"});
  EXPECT_EQ(line.command, "plan");
  EXPECT_EQ(line.ranks, 8);
  EXPECT_EQ(line.json, "o.json");
  EXPECT_EQ(parse_command_line({"plan", "a.ini", "--draw", "b.svg"}).draw, "b.svg");
  EXPECT_EQ(parse_command_line({"plan", "a.ini"}).ranks, 0);
  for (const char* ranks : {"0", "4x", "2147483648", "four"})
    EXPECT_THAT(refusal({"plan", "a.ini", "--ranks", ranks}), HasSubstr(std::string("--ranks '") + ranks))
        << ranks;
  EXPECT_NE(refusal({"plan", "a.ini", "--ranks", "-1"}), "");
}

TEST(CommandLine, GroupsOfCommands) {
  EXPECT_EQ(parse_command_line({"doctor"}).command, "doctor");
  EXPECT_EQ(parse_command_line({"checkpoint", "list", "d"}).command, "checkpoint list");
  EXPECT_THAT(parse_command_line({"checkpoint", "show", "f"}).positional, ElementsAre("f"));
  EXPECT_THAT(parse_command_line({"checkpoint", "verify", "f", "g"}).positional, ElementsAre("f", "g"));
  EXPECT_THAT(parse_command_line({"checkpoint", "diff", "f", "g"}).positional, ElementsAre("f", "g"));
  EXPECT_THAT(parse_command_line({"data", "info", "f"}).positional, ElementsAre("f"));
  const CommandLine import = parse_command_line({"data", "import", "a", "b", "--output", "c"});
  EXPECT_EQ(import.command, "data import");
  EXPECT_THAT(import.positional, ElementsAre("a", "b"));
  EXPECT_EQ(import.output, "c");
}

TEST(CommandLine, Data) {
  const CommandLine import = parse_command_line({"data", "import", "a", "--output", "c", "--from", "u16", "--vocab",
                                                 "50257", "--separator=50256"});
  EXPECT_EQ(import.from, "u16");
  EXPECT_EQ(import.vocab, 50257);
  EXPECT_EQ(import.separator, 50256);
  EXPECT_EQ(parse_command_line({"data", "import", "a", "--output", "c"}).from, "auto");
  EXPECT_EQ(parse_command_line({"data", "info", "a", "--sequence", "128"}).sequence, 128);
  EXPECT_THAT(refusal({"data", "import", "a", "--output", "c", "--from", "txt"}), HasSubstr("did you mean text?"));
  EXPECT_THAT(refusal({"data", "import", "a", "--output", "c", "--vocab", "1"}), HasSubstr("legal: 2 .. 16777216"));
  EXPECT_THAT(refusal({"data", "info", "a", "--sequence", "0"}), HasSubstr("--sequence '0'"));
}

TEST(CommandLine, Evaluate) {
  const CommandLine line = parse_command_line({"evaluate", "c.h5", "--data", "v.h5", "--batches", "0", "--json", "o",
                                               "--set", "grid.dp=1"});
  EXPECT_THAT(line.positional, ElementsAre("c.h5"));
  EXPECT_EQ(line.data, "v.h5");
  EXPECT_EQ(line.batches, 0);
  EXPECT_EQ(line.json, "o");
  EXPECT_THAT(line.overrides, ElementsAre("grid.dp=1"));
  EXPECT_EQ(parse_command_line({"evaluate", "c.h5"}).batches, -1);
  EXPECT_THAT(refusal({"evaluate", "c.h5", "--batches", "-1"}), HasSubstr("--batches '-1'"));
}

TEST(CommandLine, Compare) {
  const CommandLine line = parse_command_line({"compare", "p.ini", "--variant", "a;grid.tp=2", "--variant=b=o.ini", "--steps",
                                               "5", "--output", "d", "--json", "j"});
  EXPECT_EQ(line.parameter_file, "p.ini");
  EXPECT_THAT(line.variants, ElementsAre("a;grid.tp=2", "b=o.ini"));
  EXPECT_EQ(line.steps, 5);
  EXPECT_EQ(line.output, "d");
  EXPECT_EQ(line.json, "j");
  EXPECT_EQ(parse_command_line({"compare", "p.ini"}).steps, 0);
  EXPECT_THAT(refusal({"compare", "p.ini", "--steps", "0"}), HasSubstr("--steps '0'"));
}

TEST(CommandLine, WrongNumbersOfArguments) {
  const std::vector<Arguments> cases = {{"train"},
                                        {"train", "a", "b"},
                                        {"plan"},
                                        {"checkpoint", "list"},
                                        {"checkpoint", "diff", "a"},
                                        {"checkpoint", "diff", "a", "b", "c"},
                                        {"data", "info"},
                                        {"data", "import", "--output", "c"},
                                        {"doctor", "a"},
                                        {"evaluate"},
                                        {"compare"},
                                        {"checkpoint", "show", "a", "b"}};
  for (const Arguments& arguments : cases)
    EXPECT_THAT(refusal(arguments), HasSubstr("is given")) << testing::PrintToString(arguments);
  EXPECT_THAT(refusal({"data", "import", "a"}), HasSubstr("add --output FILE"));
  EXPECT_THAT(refusal({"checkpoint"}), HasSubstr("list, show, verify, diff"));
}

// H02: the command line lets nothing unknown pass.
TEST(CommandLine, UnknownWordsAreNamedWithTheNearestKnownOne) {
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"trian", "a"}, "did you mean train?"},
      {{"checkpoint", "lst", "a"}, "did you mean list?"},
      {{"data", "inof", "a"}, "did you mean info?"},
      {{"--hlep"}, "did you mean --help?"},
      {{"checkpoint", "--hlep"}, "did you mean --help?"},
      {{"train", "a", "--chek"},
       "unknown option --chek of octachoron train (see octachoron train --help); did you mean --check?"},
      {{"train", "a", "--che"}, "did you mean --check?"},
      {{"plan", "a", "--rank=4"}, "did you mean --ranks?"},
      {{"doctor", "--set", "a.b=c"}, "unknown option --set of octachoron doctor"},
      {{"train", "a", "-x"}, "unknown option -x"},
      {{"train", "a", "--positional", "b"}, "unknown option --positional"},
  };
  for (const auto& [arguments, expected] : cases)
    EXPECT_THAT(refusal(arguments), HasSubstr(expected)) << testing::PrintToString(arguments);
}

TEST(CommandLine, OptionsNeedTheirValueAndOnlyOne) {
  EXPECT_THAT(refusal({"plan", "a", "--json"}), HasSubstr("see octachoron plan --help"));
  EXPECT_NE(refusal({"plan", "a", "--json="}), "");
  EXPECT_NE(refusal({"train", "a", "--check=1"}), "");
  EXPECT_THAT(refusal({"plan", "a", "--json", "b", "--json", "c"}), HasSubstr("--json is given twice"));
}

TEST(CommandLine, WhatALaterVersionBringsIsRefusedByName) {
  const std::vector<Arguments> cases = {{"scan", "a"},
                                        {"report", "d"},
                                        {"sample", "c"},
                                        {"checkpoint", "export", "a"},
                                        {"checkpoint", "import", "a"},
                                        {"plan", "a", "--search"},
                                        {"doctor", "--calibrate"}};
  for (const Arguments& arguments : cases)
    EXPECT_THAT(refusal(arguments), HasSubstr("is not available in this version ("))
        << testing::PrintToString(arguments);
}

TEST(CommandLine, HelpAndVersionAreAnsweredAtOnce) {
  const auto answer = [](const Arguments& arguments) {
    std::ostringstream out, err;
    const auto status = answer_without_work(parse_command_line(arguments), out, err);
    EXPECT_EQ(err.str(), "");
    EXPECT_EQ(status, ExitStatus::done);
    return out.str();
  };
  EXPECT_THAT(answer({"--version"}), testing::MatchesRegex("octachoron [0-9.]+\n"));
  EXPECT_THAT(answer({"--help"}),
              AllOf(HasSubstr("train PARAMS"), HasSubstr("doctor"), testing::Not(HasSubstr("scan"))));
  EXPECT_EQ(answer({"-h"}), answer({"--help"}));
  EXPECT_THAT(answer({"train", "--help"}),
              AllOf(HasSubstr("usage: octachoron train PARAMS [options]"), HasSubstr("--check")));
  EXPECT_THAT(answer({"plan", "a", "--ranks", "x", "-h"}),
              AllOf(HasSubstr("--ranks N"), testing::Not(HasSubstr("--search"))));
  EXPECT_THAT(answer({"checkpoint", "--help"}),
              AllOf(HasSubstr("checkpoint diff"), testing::Not(HasSubstr("data info"))));
}

TEST(CommandLine, NothingGivenPrintsTheUsageAsAnError) {
  std::ostringstream out, err;
  const char* const argv[] = {"octachoron"};
  EXPECT_EQ(answer_without_work(parse_command_line(1, argv), out, err), ExitStatus::usage);
  EXPECT_EQ(out.str(), "");
  EXPECT_EQ(err.str(), usage_text(""));
  const char* const work[] = {"octachoron", "doctor"};
  EXPECT_EQ(answer_without_work(parse_command_line(2, work), out, err), std::nullopt);
}

}  // namespace
}  // namespace octachoron
