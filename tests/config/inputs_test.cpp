/// The parameter files of inputs/ work as they stand.
#include <filesystem>

#include "tests/config/fixture.h"

namespace octachoron {
namespace {

TEST(Inputs, EveryFileIsLegal) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(OCTACHORON_SOURCE_DIR "/inputs")) {
    if (entry.path().extension() != ".ini") continue;
    ++files;
    ParsedParameters parsed = parse_parameters(entry.path(), {});
    finalize(parsed, 256);
    EXPECT_EQ(refusal([&] { validate(parsed.values, 0); }), "") << entry.path();
  }
  EXPECT_GT(files, 0);
}

TEST(Inputs, TheDemoRunsOnFourRanksAndMayBeShortened) {
  ParsedParameters parsed = parse_parameters(OCTACHORON_SOURCE_DIR "/inputs/demo.ini", {"run.steps=5"});
  finalize(parsed, 256);
  EXPECT_EQ(refusal([&] { validate(parsed.values, 4); }), "");
  EXPECT_EQ(parsed.values.micro_batches(), 2);
}

}  // namespace
}  // namespace octachoron
