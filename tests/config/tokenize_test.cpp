#include "tests/config/fixture.h"

namespace octachoron {
namespace {

using testing::HasSubstr;

std::string shown(const std::string& text) {
  std::string result;
  for (const ParameterLine& line : tokenize(text, "p.ini"))
    result += line.key + "=" + line.value + "@" + std::to_string(line.line) + "|";
  return result;
}

TEST(Tokenize, KeysCarryTheirSectionAndLine) {
  EXPECT_EQ(shown("[a]\nx = 1\n\n[b]\ny=2 3\n[a]\nz =4"), "a.x=1@2|b.y=2 3@5|a.z=4@7|");
}

TEST(Tokenize, CommentsBeginAtTheLineStartOrAfterABlank) {
  EXPECT_EQ(shown("# c\n; c\n  # c\n[a] # c\nx = 1 # c\ny = 1\t; c\nz = p#q;r\nw=#5"),
            "a.x=1@5|a.y=1@6|a.z=p#q;r@7|a.w=#5@8|");
}

TEST(Tokenize, LineEndsOfAnySystemAndTrailingBlanksAreAccepted) {
  EXPECT_EQ(shown("\xEF\xBB\xBF[a]\r\nx = 1 \t\r\n\r\ny = 2  "), "a.x=1@2|a.y=2@4|");
  EXPECT_EQ(shown(""), "");
}

TEST(Tokenize, TheFirstEqualsSignSplits) {
  EXPECT_EQ(shown("[a]\nx = b=c"), "a.x=b=c@2|");
}

TEST(Tokenize, MalformedLinesAreNamedByFileAndLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[a]\nx = \n", "p.ini:2: a.x has no value"},
      {"[a]\nx = # 5\n", "p.ini:2: a.x has no value"},
      {"[a]\n\nhello\n", "p.ini:3: 'hello' is no parameter"},
      {"[a]\n = 5\n", "p.ini:2: '= 5' has no usable key"},
      {"[a]\nx y = 5\n", "p.ini:2: 'x y = 5' has no usable key"},
      {"x = 5\n", "p.ini:1: 'x' belongs to no section"},
      {"[a\nx = 5\n", "p.ini:1: '[a' is not a section"},
      {"[]\n", "p.ini:1: '[]' is not a section"},
      {"[a b]\n", "p.ini:1: '[a b]' is not a section"},
      {"[a] x = 5\n", "p.ini:1: '[a] x = 5' is not a section"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_THAT(refusal([&] { tokenize(text, "p.ini"); }), HasSubstr(expected)) << text;
}

}  // namespace
}  // namespace octachoron
