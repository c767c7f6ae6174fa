// Token files in HDF5: what is read, and what is refused.
#include <gmock/gmock.h>

#include "core/data/token_data.h"
#include "core/data/token_file.h"
#include "tests/data/hdf5_fixture.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::uint32_t> slice(const TokenFile& file, std::int64_t first, std::int64_t count) {
  std::vector<std::uint32_t> out(static_cast<std::size_t>(count));
  file.read(first, count, out.data());
  return out;
}

std::string refused(const std::string& path) {
  const std::string sentence = refusal(ExitStatus::data, [&] { open_token_file(path, "auto")->documents(); });
  EXPECT_THAT(sentence, AllOf(HasSubstr(path), HasSubstr("cannot be used ("), HasSubstr("); ")));
  return sentence;
}

TEST(Hdf5TokenFile, WidthsAndByteOrders) {
  const Scratch files;
  struct Case {
    hid_t type;
    std::uint64_t largest;
    const char* kind;
  };
  for (const Case& at :
       {Case{H5T_STD_U8LE, 255, "hdf5 u8"}, Case{H5T_STD_U16LE, 65535, "hdf5 u16"},
        Case{H5T_STD_U16BE, 65534, "hdf5 u16"}, Case{H5T_STD_U32LE, (1 << 24) - 1, "hdf5 u32"},
        Case{H5T_STD_U32BE, 4294967295u, "hdf5 u32"}}) {
    const std::string path =
        write_hdf5(files, "t.h5", {.tokens = Values{.numbers = {3, 1, at.largest, 4}, .type = at.type}});
    const auto file = open_token_file(path, "auto");
    EXPECT_EQ(file->kind(), at.kind);
    EXPECT_EQ(file->tokens(), 4);
    EXPECT_EQ(file->vocab(), 0);
    EXPECT_EQ(file->documents(), 0);
    EXPECT_FALSE(file->has_mask());
    EXPECT_THAT(slice(*file, 1, 3), ElementsAre(1, at.largest, 4));
  }
}

TEST(Hdf5TokenFile, SlicesOfCompressedChunks) {
  const Scratch files;
  const auto path = write_hdf5(
      files, "t.h5", {.tokens = Values{.numbers = ascending(1000, 100), .packed = true}, .vocab_size = 2000});
  const auto file = open_token_file(path, "hdf5");
  EXPECT_EQ(file->vocab(), 2000);
  EXPECT_THAT(slice(*file, 5, 4), ElementsAre(1005, 1006, 1007, 1008));
  EXPECT_THAT(slice(*file, 99, 1), ElementsAre(1099));
}

TEST(Hdf5TokenFile, MasksAndDocuments) {
  const Scratch files;
  const auto path = write_hdf5(files, "t.h5",
                               {.tokens = Values{.numbers = ascending(0, 6)},
                                .loss_mask = mask_of({0, 1, 0, 2, 1, 1}),
                                .document_offsets = offsets_of({0, 2, 2, 5, 6})});
  const auto file = open_token_file(path, "auto");
  std::vector<std::uint8_t> mask(3);
  file->read_mask(1, 3, mask.data());
  EXPECT_THAT(mask, ElementsAre(1, 0, 2));
  EXPECT_EQ(file->documents(), 3) << "0..1, 2..4, 5; two are empty";  // G06
}

TEST(Hdf5TokenFile, LargerThanAnyMemory) {
  const Scratch files;
  const std::string path = files.path("huge.h5");
  constexpr hsize_t kTokens = hsize_t(1) << 42, kChunk = 1 << 16;
  {
    const Hdf5Handle access = file_access();
    const Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose,
                          "make a file");
    const Hdf5Handle space(H5Screate_simple(1, &kTokens, nullptr), H5Sclose, "make a space");
    const Hdf5Handle create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make properties");
    hdf5_check(H5Pset_chunk(create, 1, &kChunk), "cut in chunks");
    const std::uint8_t fill = 7;
    hdf5_check(H5Pset_fill_value(create, H5T_NATIVE_UINT8, &fill), "fill");
    const Hdf5Handle dataset(
        H5Dcreate2(file, "tokens", H5T_STD_U8LE, space, H5P_DEFAULT, create, H5P_DEFAULT), H5Dclose,
        "make a dataset");
  }
  const TokenData data({path}, "auto", 1024, 256);
  EXPECT_EQ(data.samples(), (std::int64_t(1) << 32) - 1);
  std::vector<std::int32_t> ids(1024), targets(1024);
  data.sample(data.samples() - 1, false, ids.data(), targets.data());
  EXPECT_EQ(ids[0], 7);
  EXPECT_EQ(targets[1023], 7);
}

TEST(Hdf5TokenFile, OtherContentsAreRefused) {
  const Scratch files;
  const Values good{.numbers = ascending(0, 6)};
  const auto why = [&](const FileContents& contents) {
    return refused(write_hdf5(files, "bad.h5", contents));
  };
  EXPECT_THAT(why({}), HasSubstr("it has no dataset /tokens"));
  EXPECT_THAT(why({.tokens = Values{.numbers = {1, 2}, .type = H5T_STD_I32LE}}),
              HasSubstr("/tokens is not of type u8 to u32"));
  EXPECT_THAT(why({.tokens = Values{.numbers = {1, 2}, .type = H5T_IEEE_F32LE}}),
              HasSubstr("is not of type u8 to u32"));
  EXPECT_THAT(why({.tokens = Values{.numbers = {1, 2}, .type = H5T_STD_U64LE}}),
              HasSubstr("is not of type u8 to u32"));
  EXPECT_THAT(why({.tokens = Values{.numbers = ascending(0, 6), .shape = {2, 3}}}),
              HasSubstr("not one dimension"));
  EXPECT_THAT(why({.tokens = Values{.numbers = {}}}), HasSubstr("/tokens is empty"));
  EXPECT_THAT(why({.tokens = good, .loss_mask = mask_of({1, 1})}),
              HasSubstr("/loss_mask has 2 entries for 6 tokens"));
  EXPECT_THAT(why({.tokens = good, .loss_mask = Values{.numbers = ascending(0, 6)}}),
              HasSubstr("/loss_mask is not of type u8"));
  EXPECT_THAT(why({.tokens = good, .document_offsets = Values{.numbers = {0, 2}}}),
              HasSubstr("/document_offsets is not of type u64"));
  EXPECT_THAT(why({.tokens = good, .document_offsets = offsets_of({0, 4, 2})}),
              HasSubstr("document 2 begins at 2, the one before it at 4"));
  EXPECT_THAT(why({.tokens = good, .document_offsets = offsets_of({0, 7})}),
              HasSubstr("document 1 begins at 7, the file ends at 6"));
  EXPECT_THAT(why({.tokens = good, .vocab_size = 70000}),
              AllOf(HasSubstr("70000"), HasSubstr("65535")));  // G03
  EXPECT_THAT(why({.tokens = good, .vocab_size = 0}), HasSubstr("its vocab_size is 0"));
  EXPECT_THAT(why({.tokens = good, .vocab_size = (1 << 24) + 1}), HasSubstr("its vocab_size is 16777217"));
}

TEST(Hdf5TokenFile, DamagedFilesAreRefused) {
  const Scratch files;
  refused(files.write("noise.h5", "\x89HDF\r\n\x1a\n" + std::string(2000, 'x')));
  const auto path = write_hdf5(files, "cut.h5", {.tokens = Values{.numbers = ascending(0, 5000)}});
  std::filesystem::resize_file(path, 4000);
  EXPECT_THAT(refused(path), HasSubstr("truncated"));
  const auto text = files.write("text.txt", "no HDF5 at all, but named so");
  EXPECT_THAT(refusal(ExitStatus::data, [&] { open_token_file(text, "hdf5"); }),
              HasSubstr("open it as HDF5"));
}

TEST(Hdf5TokenFile, ForeignIdsAreNamedWithFileAndPosition) {  // G01, G02
  const Scratch files;
  const auto good = write_hdf5(files, "good.h5", {.tokens = Values{.numbers = ascending(0, 300)}});
  std::vector<std::uint64_t> numbers(3000000, 5);
  numbers[2100007] = 70001;
  const auto bad = write_hdf5(files, "bad.h5", {.tokens = Values{.numbers = numbers, .type = H5T_STD_U32LE}});
  const auto refuse = [&](std::int64_t vocab, ScanShare share = {}) {
    return refusal(ExitStatus::data, [&] { TokenData({good, bad}, "auto", 8, vocab, share); });
  };
  EXPECT_THAT(refuse(70001),
              AllOf(HasSubstr(bad), HasSubstr("id 70001 at token 2100007"), HasSubstr("vocab is 70001")));
  EXPECT_THAT(refuse(300), HasSubstr("id 70001"));
  EXPECT_THAT(refuse(299), AllOf(HasSubstr(good), HasSubstr("id 299 at token 299")));
  EXPECT_EQ(TokenData({good, bad}, "auto", 8, 70002).tokens(), 3000300);
  // Three processes share the work: the third of them finds it.
  for (const std::int64_t index : {0, 1}) TokenData({good, bad}, "auto", 8, 70001, {index, 3});
  EXPECT_THAT(refuse(70001, {2, 3}), HasSubstr("id 70001 at token 2100007"));
  const auto own = write_hdf5(files, "own.h5", {.tokens = Values{.numbers = {1, 2, 60}}, .vocab_size = 50});
  EXPECT_THAT(refusal(ExitStatus::data, [&] { TokenData({own}, "auto", 2, 100); }),
              AllOf(HasSubstr("id 60 at token 2"), HasSubstr("its own vocab_size is 50")));
}

TEST(Hdf5TokenFile, IdsThatChangeInUseAreRefused) {
  const Scratch files;  // more tokens than HDF5 keeps in its sieve
  const auto path = write_hdf5(files, "t.h5", {.tokens = Values{.numbers = ascending(0, 60000)}});
  const TokenData data({path}, "auto", 8, 60000);
  {
    std::fstream raw(path, std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(raw)), {});
    const auto at = bytes.find(std::string("\x30\x75\x31\x75", 4));  // tokens 30000 and 30001
    ASSERT_NE(at, std::string::npos);
    raw.clear();
    raw.seekp(std::streamoff(at));
    raw.write("\xff\xff", 2);
  }
  std::vector<std::int32_t> ids(8), targets(8);
  EXPECT_THAT(refusal(ExitStatus::data, [&] { data.sample(3750, false, ids.data(), targets.data()); }),
              AllOf(HasSubstr(path), HasSubstr("changed while in use")));
}

}  // namespace
}  // namespace octachoron
