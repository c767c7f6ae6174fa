#include "core/plugin/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace octachoron {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kFixtures = OCTACHORON_BINARY_DIR "/tests/plugins/";
const std::string kShipped = OCTACHORON_BINARY_DIR "/lib/octachoron";

/// The sentence with which a file is refused; empty if it is not.
std::string refusal(const std::string& file, oct_family family = OCT_PRECISION) {
  try {
    PluginLibrary library(file, family);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::environment);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(file), HasSubstr("); "))) << "what, why and what to do";
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}
std::string fixture(const std::string& name) {
  return kFixtures + "precision-" + name + ".so";
}

TEST(Loading, SoundPluginIsLoaded) {
  const PluginLibrary library(fixture("sound"), OCT_PRECISION);
  EXPECT_STREQ(library.info().name, "sound");
  EXPECT_EQ(library.file(), fixture("sound"));
  EXPECT_TRUE(library.has(&oct_precision_table::spec));
  EXPECT_FALSE(library.has(&oct_precision_table::update)) << "null";
}

TEST(Loading, RefusesMissingFile) {
  EXPECT_THAT(refusal("/no/such/plugin.so"), HasSubstr("No such file"));
}

TEST(Loading, BareNamesAreFilesOfTheWorkingDirectory) {
  // dlopen("libm.so.6") would find the system's.
  EXPECT_THAT(refusal("libm.so.6"), HasSubstr("No such file"));
}

TEST(Loading, RefusesWhatIsNoLibrary) {
  const std::string file = testing::TempDir() + "text.so";
  std::ofstream(file) << "text";
  EXPECT_THAT(refusal(file), AllOf(HasSubstr("cannot use"), HasSubstr("check the path")));
  std::filesystem::remove(file);
}

TEST(Loading, RefusesAnotherMajorVersionBeforeReadingAnythingElse) {
  EXPECT_THAT(refusal(fixture("stale-major")),
              AllOf(HasSubstr("ABI 2."), HasSubstr("1."), HasSubstr("rebuild")));
}
TEST(Loading, RefusesShortTable) {
  EXPECT_THAT(refusal(fixture("short-table")), HasSubstr("too short for 'spec'"));
}
TEST(Loading, RefusesMissingSlot) {
  EXPECT_THAT(refusal(fixture("missing-slot")), HasSubstr("required 'storage'"));
}
TEST(Loading, RefusesNullTable) {
  EXPECT_THAT(refusal(fixture("null-table")), HasSubstr("its table is null"));
}
TEST(Loading, RefusesNullDescription) {
  EXPECT_THAT(refusal(fixture("null-info")), HasSubstr("returned null"));
}
TEST(Loading, RefusesIllegalName) {
  EXPECT_THAT(refusal(fixture("bad-name")), HasSubstr("'Sound_1'"));
}
TEST(Loading, RefusesFileWithoutEntry) {
  EXPECT_THAT(refusal(fixture("no-entry")), HasSubstr("does not export octachoron_plugin"));
}
TEST(Loading, RefusesEntryOfDependency) {
  EXPECT_THAT(refusal(kFixtures + "octachoron_borrowed_fixture.so"),
              AllOf(HasSubstr("its dependency"), HasSubstr("octachoron_leaky_fixture.so")));
}
TEST(Loading, RefusesAnotherFamily) {
  EXPECT_THAT(refusal(fixture("sound"), OCT_COMM),
              AllOf(HasSubstr("precision plugin"), HasSubstr("not a comm")));
}

TEST(Check, StatusLeadsToExitStatusAndAdvice) {
  const PluginLibrary library(fixture("sound"), OCT_PRECISION);
  const std::pair<oct_status, ExitStatus> cases[] = {
      {OCT_INVALID_ARGUMENT, ExitStatus::usage},    {OCT_UNSUPPORTED, ExitStatus::environment},
      {OCT_OUT_OF_MEMORY, ExitStatus::environment}, {OCT_DEVICE_ERROR, ExitStatus::environment},
      {OCT_COMM_ERROR, ExitStatus::peer_failed},    {OCT_INTERNAL, ExitStatus::internal}};
  EXPECT_NO_THROW(library.check(OCT_OK, "create"));
  for (const auto& [status, exit] : cases) {
    try {
      library.check(status, "create");
      FAIL() << status;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), exit);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("'sound' 1.0: create failed"), HasSubstr("); ")));
    }
  }
}

TEST(Search, NameIsLookedForInThePathFirst) {
  EXPECT_EQ(find_plugin(OCT_PRECISION, "sound", "/no/such/folder:" + kFixtures),
            kFixtures + "precision-sound.so");
  EXPECT_EQ(find_plugin(OCT_PRECISION, "./some/file.so", ""), "./some/file.so") << "a path is left as it is";
}

TEST(Search, FoldersEndWithThatOfTheProgram) {
  const auto folders = plugin_folders("/a::/b");
  ASSERT_EQ(folders.size(), 3u);
  EXPECT_EQ(folders[0], "/a");
  EXPECT_EQ(folders[1], "/b");
  EXPECT_THAT(folders[2], testing::EndsWith("/lib/octachoron"));
}

TEST(Search, UnknownNameListsFoldersAndPlugins) {
  try {
    find_plugin(OCT_PRECISION, "fp23", kShipped);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::environment);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("precision plugin 'fp23'"), HasSubstr(kShipped), HasSubstr("fp32")));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("mpi"))) << "plugins of other families do not help";
  }
}

TEST(Search, ListIsInOrderAndNamesEachOnce) {
  const auto found = list_plugins(kFixtures + ":" + kFixtures + ":/no/such/folder");
  ASSERT_FALSE(found.empty());
  for (std::size_t i = 1; i < found.size(); ++i)
    EXPECT_LT(std::make_pair(found[i - 1].family, found[i - 1].name),
              std::make_pair(found[i].family, found[i].name));
}

}  // namespace
}  // namespace octachoron
