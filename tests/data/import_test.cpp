// `data import` and `data info`.
#include "core/data/import.h"

#include <gmock/gmock.h>

#include "core/data/data_info.h"
#include "core/data/token_file.h"
#include "tests/data/hdf5_fixture.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::uint32_t> contents(const std::string& path) {
  const auto file = open_token_file(path, "hdf5");
  std::vector<std::uint32_t> ids(static_cast<std::size_t>(file->tokens()));
  file->read(0, file->tokens(), ids.data());
  return ids;
}

std::string little_endian(const std::vector<std::uint32_t>& ids, int bytes) {
  std::string out;
  for (const std::uint32_t id : ids)
    for (int b = 0; b < bytes; ++b) out.push_back(char(id >> (8 * b)));
  return out;
}

TEST(Import, TextBecomesBytes) {
  const Scratch files;
  const std::string big = std::string(3 << 20, 'x') + "\xff", output = files.path("out.h5");
  const std::string line = import_data({files.write("a", "abc"), files.write("b", big)}, {.output = output});
  EXPECT_EQ(line, output + ": hdf5 u8, 3145732 tokens from 2 files, 2 documents, vocabulary 256\n");
  const auto ids = contents(output);
  EXPECT_EQ(ids[0], 'a');
  EXPECT_EQ(ids[3], 'x');
  EXPECT_EQ(ids.back(), 255u);
  EXPECT_FALSE(std::filesystem::exists(output + ".tmp"));
  EXPECT_EQ(open_token_file(output, "auto")->vocab(), 256);
}

TEST(Import, RawIdsTakeTheWidthThatTheVocabularyNeeds) {
  const Scratch files;
  const std::string output = files.path("out.h5");
  const std::vector<std::uint32_t> ids = {0, 513, 50256, 7};
  import_data({files.write("u16", little_endian(ids, 2))}, {.from = "u16", .vocab = 50257, .output = output});
  EXPECT_EQ(open_token_file(output, "auto")->kind(), "hdf5 u16");
  EXPECT_EQ(contents(output), ids);
  import_data({files.write("u32", little_endian({0, 70000}, 4))},
              {.from = "u32", .vocab = 70001, .output = output});
  EXPECT_EQ(open_token_file(output, "auto")->kind(), "hdf5 u32");
  EXPECT_THAT(contents(output), ElementsAre(0, 70000));
}

TEST(Import, ListsOfIds) {
  const Scratch files;
  const std::string output = files.path("out.h5");
  import_data({files.write("ids", "12 7\n0\t300\r\n\n5")}, {.from = "ids", .vocab = 301, .output = output});
  EXPECT_THAT(contents(output), ElementsAre(12, 7, 0, 300, 5));
  const auto refuse = [&](const std::string& list) {
    return refusal(ExitStatus::data, [&] {
      import_data({files.write("ids", list)}, {.from = "ids", .vocab = 301, .output = output});
    });
  };
  EXPECT_THAT(refuse("1 2 -3"), HasSubstr("number 2 is '-3'"));
  EXPECT_THAT(refuse("1, 2"), HasSubstr("number 0 is '1,'"));
  EXPECT_THAT(refuse("99999999999999999999999"), HasSubstr("no id"));
  EXPECT_THAT(refuse(" \n"), HasSubstr("has no ids"));
}

TEST(Import, SeparatorsEndDocuments) {
  const Scratch files;
  const std::string output = files.path("out.h5");
  import_data({files.write("a", "one\n\ntwo\n"), files.write("b", "three")},
              {.separator = '\n', .output = output});
  EXPECT_EQ(open_token_file(output, "auto")->documents(), 4) << "one, an empty line, two, three";
  const Hdf5Handle access = read_access();
  const Hdf5Handle file(H5Fopen(output.c_str(), H5F_ACC_RDONLY, access), H5Fclose, "open");
  const Hdf5Handle offsets(H5Dopen2(file, "document_offsets", H5P_DEFAULT), H5Dclose, "open");
  std::vector<std::uint64_t> begins(4);
  hdf5_check(H5Dread(offsets, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, begins.data()), "read");
  EXPECT_THAT(begins, ElementsAre(0, 4, 5, 9));
}

TEST(Import, RefusesAndLeavesNothing) {
  const Scratch files;
  const std::string input = files.write("a", "abc"), output = files.path("out.h5");
  refusal(ExitStatus::usage, [&] { import_data({input}, {.output = input}); });
  EXPECT_EQ(std::filesystem::file_size(input), 3u);
  refusal(ExitStatus::usage, [&] { import_data({}, {.output = output}); });
  refusal(ExitStatus::data, [&] { import_data({input, files.path("none")}, {.output = output}); });
  EXPECT_THAT(
      refusal(ExitStatus::data, [&] { import_data({input}, {.from = "u16", .vocab = 9, .output = output}); }),
      HasSubstr("3 bytes are not a multiple of 2"));
  const std::string even = files.write("even", little_endian({1, 2, 300}, 2));
  EXPECT_THAT(refusal(ExitStatus::usage, [&] { import_data({even}, {.from = "u16", .output = output}); }),
              HasSubstr("--vocab is missing"));
  EXPECT_THAT(refusal(ExitStatus::data,
                      [&] { import_data({even}, {.from = "u16", .vocab = 300, .output = output}); }),
              AllOf(HasSubstr(even), HasSubstr("id 300 at token 2")));
  EXPECT_FALSE(std::filesystem::exists(output));
  EXPECT_THAT(
      refusal(ExitStatus::data, [&] { import_data({input}, {.output = files.path("no/such/folder/out")}); }),
      HasSubstr("No such file"));
  import_data({input}, {.output = output});
  EXPECT_THAT(refusal(ExitStatus::usage, [&] { import_data({output}, {.output = files.path("again.h5")}); }),
              HasSubstr("a token file already"));
  refusal(ExitStatus::data, [&] { import_data({even}, {.from = "u16", .vocab = 300, .output = output}); });
  EXPECT_EQ(contents(output).size(), 3u) << "what was there stays";
}

TEST(Info, Text) {
  const Scratch files;
  const std::string text = data_info({files.write("a", "abcab"), files.write("b", "dd")}, "auto", 4);
  EXPECT_THAT(text, HasSubstr("/a: text, 5 tokens, vocabulary 256, no documents stated, no loss mask\n"));
  EXPECT_THAT(text, HasSubstr("all: 7 tokens, 4 distinct ids, largest 100, vocabulary 256\n"));
  EXPECT_THAT(
      text, HasSubstr("sequence 4: 1 samples for training with 4 targets; 2 for validation with 6, the last "
                      "one with 2\n"));
  EXPECT_THAT(refusal(ExitStatus::data, [&] { data_info({files.path("none")}, "auto", 0); }),
              HasSubstr("none"));
}

TEST(Info, Hdf5) {
  const Scratch files;
  const auto path = write_hdf5(files, "t.h5",
                               {.tokens = Values{.numbers = {9, 9, 49999, 1, 1, 1, 1, 1}},
                                .loss_mask = mask_of({1, 1, 0, 0, 0, 1, 1, 1}),
                                .document_offsets = offsets_of({0, 2, 2, 5}),
                                .vocab_size = 50257});
  const std::string text = data_info({path}, "auto", 3);
  EXPECT_THAT(text,
              HasSubstr(": hdf5 u16, 8 tokens, vocabulary 50257, 3 documents, 3 tokens masked (37.50 %)\n"));
  EXPECT_THAT(text, HasSubstr("all: 8 tokens, 3 distinct ids, largest 49999, vocabulary 50257\n"));
  EXPECT_THAT(
      text, HasSubstr("sequence 3: 2 samples for training with 3 targets; 3 for validation with 4, the last "
                      "one with 1\n"));
  const auto silent =
      write_hdf5(files, "s.h5", {.tokens = Values{.numbers = {1, 70000}, .type = H5T_STD_U32LE}});
  EXPECT_THAT(data_info({silent}, "auto", 0),
              HasSubstr("largest 70000, vocabulary not stated: set model.vocab"));
}

}  // namespace
}  // namespace octachoron
