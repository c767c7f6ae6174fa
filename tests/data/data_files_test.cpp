#include "core/data/data_files.h"

#include <gmock/gmock.h>

#include <iterator>

#include "tests/data/scratch.h"

namespace octachoron {
namespace {

using testing::HasSubstr;

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(DataFiles, InfoCounts) {
  const Scratch files;
  const std::string text = data_info({files.write("a", "abcab"), files.write("b", "dd")}, "auto", 4);
  EXPECT_THAT(text, HasSubstr("/a: text, 5 tokens"));
  EXPECT_THAT(text, HasSubstr("all: 7 tokens, 4 distinct ids, largest 100, vocabulary 256"));
  EXPECT_THAT(text, HasSubstr("1 samples for training, 2 for validation, the last one with 2 targets"));
  EXPECT_THAT(refusal(ExitStatus::data, [&] { data_info({files.path("none")}, "auto", 0); }),
              HasSubstr("none"));
}

TEST(DataFiles, ImportJoins) {
  const Scratch files;
  const std::string big = std::string(3 << 20, 'x') + "end", output = files.path("out");
  const std::string line = import_data({files.write("a", "abc"), files.write("b", big)}, "text", output);
  EXPECT_THAT(line, HasSubstr("3145734 tokens from 2 files"));
  EXPECT_EQ(contents(output), "abc" + big);
  EXPECT_FALSE(std::filesystem::exists(output + ".tmp"));
}

TEST(DataFiles, ImportRefusesAndLeavesNothing) {
  const Scratch files;
  const std::string input = files.write("a", "abc"), output = files.path("out");
  refusal(ExitStatus::usage, [&] { import_data({input}, "text", input); });
  EXPECT_EQ(contents(input), "abc");
  refusal(ExitStatus::usage, [&] { import_data({}, "text", output); });
  refusal(ExitStatus::data, [&] { import_data({input, files.path("none")}, "text", output); });
  EXPECT_FALSE(std::filesystem::exists(output));
  EXPECT_THAT(
      refusal(ExitStatus::data, [&] { import_data({input}, "text", files.path("no/such/folder/out")); }),
      HasSubstr("No such file"));
}

}  // namespace
}  // namespace octachoron
