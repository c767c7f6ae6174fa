// Loading on several ranks: what one cannot load, nobody uses. Run at 1, 2 and 4 ranks.
#include "core/plugin/agree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugin/fixtures/run_host.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kFixtures = OCTACHORON_BINARY_DIR "/tests/plugins/";
std::string fixture(const std::string& name) {
  return kFixtures + "precision-" + name + ".so";
}

class Agree : public testing::Test {
 protected:
  /// The sentence of load_together(), the same on all ranks; empty if it succeeded.
  std::string load(const std::string& file) {
    try {
      load_together(host, OCT_PRECISION, file, kFixtures);
    } catch (const Error& error) {
      status = error.status();
      return error.what();
    }
    return "";
  }
  bool last() const { return host.rank == host.size - 1; }

  const oct_host host = run_host(MPI_COMM_WORLD);
  ExitStatus status = ExitStatus::done;
};

TEST_F(Agree, AllLoadTheSame) {
  EXPECT_EQ(load("sound"), "");
  EXPECT_EQ(load(fixture("sound")), "");
}

TEST_F(Agree, OneRankWithoutTheFileStopsAll) {
  EXPECT_THAT(load(last() ? "/no/such/file.so" : "sound"),
              AllOf(HasSubstr("/no/such/file.so"), HasSubstr("); ")));
  EXPECT_EQ(status, ExitStatus::environment);
}

TEST_F(Agree, LowestFailingRankSpeaks) {
  const std::string sentence = load("/no/such/file-" + std::to_string(host.rank) + ".so");
  EXPECT_THAT(sentence, HasSubstr("file-0.so")) << "so that one sentence is printed";
}

TEST_F(Agree, StatusOfTheFailingRankCounts) {
  try {
    agree(host, last() ? "a wrong value" : "", "", last() ? ExitStatus::usage : ExitStatus::environment);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::usage);
    EXPECT_STREQ(error.what(), "a wrong value");
  }
}

TEST_F(Agree, OneRankWithAnotherFileIsRefusedByAllNamingBoth) {
  const std::string sentence = load(fixture(last() ? "other-build" : "sound"));
  if (host.size == 1) {
    EXPECT_EQ(sentence, "");
    return;
  }
  const std::string rank =
      "rank " + std::to_string(host.size - 1) + ": precision sound 1.0, built with another build";
  EXPECT_THAT(sentence,
              AllOf(HasSubstr("rank 0: precision sound 1.0, built with one build"), HasSubstr(rank)));
  EXPECT_EQ(status, ExitStatus::environment);
}

TEST_F(Agree, LongSentencesAreCutNotOverrun) {
  const std::string sentence(5000, 'x');
  try {
    agree(host, sentence, "");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(sentence, testing::StartsWith(error.what()));
  }
}

}  // namespace
}  // namespace octachoron
