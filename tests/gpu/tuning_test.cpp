/// The file of algorithm choices.
#include "plugins/device/cuda/tuning.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace octachoron::cuda {
namespace {

class TuningFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("octachoron-tuning-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

constexpr Tuning::Choice kOne = {1, 2, 3, 4, 5, 6, 7, 0xfedcba9876543210u}, kOther = {9, 9, 9, 9, 9, 9, 9, 9};

TEST_F(TuningFile, ChoicesComeBack) {
  {
    Tuning tuning(folder_, 0, "library 1, device X");
    EXPECT_EQ(tuning.find("a"), nullptr);
    tuning.remember("a", kOne);
    tuning.remember("b", kOther);
    EXPECT_EQ(tuning.problem(), "");
  }
  const Tuning again(folder_, 0, "library 1, device X");
  ASSERT_NE(again.find("a"), nullptr);
  EXPECT_EQ(*again.find("a"), kOne);
  EXPECT_EQ(*again.find("b"), kOther);
  EXPECT_EQ(Tuning(folder_, 0, "library 2, device X").find("a"), nullptr) << "of another library";
}

TEST_F(TuningFile, OtherRanksBeginWithThoseOfRankZero) {
  Tuning(folder_, 0, "l").remember("a", kOne);
  Tuning three(folder_, 3, "l");
  EXPECT_EQ(*three.find("a"), kOne);
  three.remember("a", kOther);
  EXPECT_EQ(*Tuning(folder_, 3, "l").find("a"), kOther);
  EXPECT_EQ(*Tuning(folder_, 0, "l").find("a"), kOne);
}

TEST_F(TuningFile, ChoicesOfAnotherLibraryStay) {
  {
    Tuning tuning(folder_, 0, "library 1");
    tuning.remember("a", kOne);
    tuning.remember("b", kOne);
  }
  {
    Tuning other(folder_, 0, "library 2");
    EXPECT_EQ(other.passed_over(), 2);
    other.remember("a", kOther);
    EXPECT_EQ(other.passed_over(), 1);
  }
  const Tuning again(folder_, 0, "library 1");
  ASSERT_NE(again.find("b"), nullptr);
  EXPECT_EQ(*again.find("a"), kOne);
  EXPECT_EQ(again.passed_over(), 0);
}

TEST_F(TuningFile, DamageIsPassedOver) {
  Tuning(folder_, 0, "l").remember("a", kOne);
  std::stringstream text;
  text << std::ifstream(folder_ / "tuning.json").rdbuf();
  std::string damaged = text.str();
  damaged[damaged.find("fedc")] = 'x';
  std::ofstream(folder_ / "tuning.json") << damaged << "{\"gemm\": \"b";
  EXPECT_EQ(Tuning(folder_, 0, "l").find("a"), nullptr);
}

TEST_F(TuningFile, UnwritableFolderIsAProblemNotAFailure) {
  std::ofstream(folder_ / "file") << "no folder";
  Tuning tuning(folder_ / "file", 0, "l");
  tuning.remember("a", kOne);
  EXPECT_NE(tuning.problem().find("cannot be kept"), std::string::npos);
  EXPECT_EQ(*tuning.find("a"), kOne);
}

}  // namespace
}  // namespace octachoron::cuda
