#include <fstream>
#include <sstream>

#include "tests/config/fixture.h"

namespace octachoron {
namespace {

TEST(Documentation, TheCommittedPageIsUpToDate) {
  std::ifstream file(OCTACHORON_SOURCE_DIR "/core/docs/parameters.md");
  std::ostringstream contents;
  contents << file.rdbuf();
  EXPECT_TRUE(contents.str() == parameter_documentation())
      << "core/docs/parameters.md is stale: ninja -C build octachoron_parameter_docs, then commit it";
}

TEST(Documentation, EveryKeyIsExplained) {
  const std::string page = parameter_documentation();
  for (const ParameterInfo& info : parameter_table()) {
    EXPECT_THAT(page, testing::HasSubstr("| " + info.key + " |"));
    EXPECT_FALSE(info.help.empty() || info.legal.empty() || info.default_text.empty()) << info.key;
  }
}

}  // namespace
}  // namespace octachoron
