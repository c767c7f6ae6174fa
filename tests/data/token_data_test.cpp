#include "core/data/token_data.h"

#include <gmock/gmock.h>

#include "tests/data/scratch.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct Sample {
  std::vector<std::int32_t> ids, targets;
};
Sample read(const TokenData& data, std::int64_t k, bool padded = false) {
  Sample out{std::vector<std::int32_t>(std::size_t(data.sequence())),
             std::vector<std::int32_t>(std::size_t(data.sequence()))};
  data.sample(k, padded, out.ids.data(), out.targets.data());
  return out;
}

TEST(TokenData, SamplesOverlapByOneTokenAndCrossFiles) {
  const Scratch files;
  const TokenData data({files.write("a", counting(6)), files.write("b", std::string(1, char(6))),
                        files.write("c", "\7\10\11")},
                       "text", 4, 256);
  EXPECT_EQ(data.tokens(), 10);
  EXPECT_EQ(data.samples(), 2);  // tokens 0..4 and 4..8; 9 is the tail
  EXPECT_EQ(data.describe(), "3 files, 10 tokens, 2 samples of 4");
  EXPECT_THAT(read(data, 0).ids, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read(data, 0).targets, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(read(data, 1).ids, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(read(data, 1).targets, ElementsAre(5, 6, 7, 8));
  EXPECT_THROW(read(data, 2), Error);
}

TEST(TokenData, TheTailIsPaddedWithIgnoredTargets) {
  const Scratch files;
  const TokenData data({files.write("a", counting(11))}, "text", 4, 256);
  EXPECT_EQ(data.padded_samples(), 3);
  EXPECT_THAT(read(data, 2, true).ids, ElementsAre(8, 9, 0, 0));
  EXPECT_THAT(read(data, 2, true).targets, ElementsAre(9, 10, -1, -1));
  EXPECT_THAT(read(data, 7, true).targets, ElementsAre(-1, -1, -1, -1));
  EXPECT_EQ(data.valid_targets(0, 3), 10);
  EXPECT_EQ(data.valid_targets(2, 5), 2);
  EXPECT_EQ(data.valid_targets(5, 2), 0);
}

TEST(TokenData, WholeSamplesNeedNoPadding) {
  const Scratch files;
  const TokenData data({files.write("a", counting(9))}, "text", 4, 256);
  EXPECT_EQ(data.samples(), 2);
  EXPECT_EQ(data.padded_samples(), 2);
}

TEST(TokenData, UnusableFilesAreNamed) {  // G06
  const Scratch files;
  const auto open = [&](const std::string& path) {
    return refusal(ExitStatus::data, [&] {
      TokenData({files.write("good", counting(20)), path}, "text", 4, 256);
    });
  };
  EXPECT_THAT(open(files.path("missing")), AllOf(HasSubstr("missing"), HasSubstr("No such file")));
  EXPECT_THAT(open(files.path("")), HasSubstr("it is a folder"));
  EXPECT_THAT(open(files.write("empty", "")), AllOf(HasSubstr("empty"), HasSubstr("it is empty")));
  EXPECT_THAT(open("/dev/null"), HasSubstr("not a regular file"));
  EXPECT_THAT(open("/proc/self/mem"), HasSubstr("/proc/self/mem"));
}

TEST(TokenData, TooFewTokensAreRefused) {
  const Scratch files;
  const std::string path = files.write("short", counting(8));
  const auto sentence = refusal(ExitStatus::data, [&] { TokenData({path}, "text", 8, 256); });
  EXPECT_THAT(sentence, AllOf(HasSubstr(path), HasSubstr("8 tokens"), HasSubstr("needs 9")));
  EXPECT_EQ(TokenData({path}, "text", 7, 256).samples(), 1);
}

TEST(TokenData, ForeignIdsAreNamedWithFileAndOffset) {  // G01, G02
  const Scratch files;
  const std::string good = files.write("good", counting(64)),
                    bad = files.write("bad", counting(64) + "\x40" + "x");
  EXPECT_EQ(TokenData({good}, "text", 8, 64).tokens(), 64);
  const auto sentence = refusal(ExitStatus::data, [&] { TokenData({good, bad}, "text", 8, 64); });
  EXPECT_THAT(sentence,
              AllOf(HasSubstr(bad), HasSubstr("id 64 at token 64"), HasSubstr("model.vocab is 64")));
}

TEST(TokenData, ForeignIdsAreFoundBeyondTheFirstWindow) {
  const Scratch files;
  const std::string path =
      files.write("long", std::string((1 << 20) + 5, '\1') + "\x09" + std::string(9, '\1'));
  EXPECT_THAT(refusal(ExitStatus::data, [&] { TokenData({path}, "auto", 8, 9); }),
              HasSubstr("id 9 at token 1048581"));
}

TEST(TokenData, OtherFormatsAreSeenAndRefused) {
  const Scratch files;
  const std::string hdf5 = files.write("t.h5", "\x89HDF\r\n\x1a\n" + std::string(40, 'x'));
  EXPECT_THAT(refusal(ExitStatus::data, [&] { TokenData({hdf5}, "text", 8, 256); }), HasSubstr("it is an HDF5 file"));
  const std::string ids = files.write("ids.u16", std::string("\1\0\2\0\3\0\4\0\5\0", 10));
  EXPECT_THAT(refusal(ExitStatus::data, [&] { TokenData({ids}, "auto", 4, 256); }),
              AllOf(HasSubstr("byte 1 is 0"), HasSubstr("data import")));
  EXPECT_EQ(TokenData({ids}, "text", 4, 256).tokens(), 10) << "the bytes, where the user insists";
  const std::string llmc = files.write("t.bin", "\x58\xd8\x34\x01" + std::string(40, 'x'));
  EXPECT_THAT(refusal(ExitStatus::usage, [&] { TokenData({llmc}, "auto", 8, 256); }), HasSubstr("llmc"));
  EXPECT_THAT(refusal(ExitStatus::usage,
                      [&] { TokenData({files.write("m", "plain text here")}, "megatron", 4, 256); }),
              HasSubstr("not available in this version"));
}

TEST(TokenData, AFileThatShrinksInUseIsAnError) {
  const Scratch files;
  const std::string path = files.write("shrinks", counting(100));
  const TokenData data({path}, "text", 8, 256);
  std::filesystem::resize_file(path, 50);
  EXPECT_EQ(read(data, 0).ids[7], 7);
  EXPECT_THAT(refusal(ExitStatus::data, [&] { read(data, 11); }), HasSubstr("shorter"));
}

}  // namespace
}  // namespace octachoron
