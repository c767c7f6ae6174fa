#include <gtest/gtest.h>
#include <mpi.h>

#include <filesystem>
#include <fstream>

#include "core/train/algorithm_choices.h"

namespace octachoron {
namespace {

std::string line(const char* product, const char* library, const char* algorithm) {
  return std::string("{\"gemm\": \"") + product + "\", \"library\": \"" + library + "\", \"algorithm\": \"" + algorithm + "\"}";
}

std::string file_of(std::initializer_list<std::string> lines) {
  std::string text = "[\n";
  for (const std::string& each : lines) text += each + (&each == lines.end() - 1 ? "\n]\n" : ",\n");
  return text;
}

class Choices : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / "octachoron-choices";
    if (world_.rank() == 0) std::filesystem::remove_all(folder_);
    world_.barrier();
  }
  void TearDown() override {
    world_.barrier();
    if (world_.rank() == 0) std::filesystem::remove_all(folder_);
  }

  World world_{MPI_COMM_WORLD};
  std::filesystem::path folder_;
};

TEST_F(Choices, AreMadeAnewFromACheckpoint) {
  const std::string kept = file_of({line("a", "1", "00"), line("b", "1", "01")});
  restore_choices(folder_, kept, world_);
  EXPECT_EQ(read_choices(folder_), kept);
}

TEST_F(Choices, OfACheckpointGoBeforeThoseOfTheFileAndOthersStay) {
  if (world_.rank() == 0) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "tuning.json") << file_of({line("a", "1", "ff"), line("a", "2", "ee"), line("c", "1", "dd")});
  }
  world_.barrier();
  restore_choices(folder_, file_of({line("a", "1", "00"), line("b", "1", "01")}), world_);
  EXPECT_EQ(read_choices(folder_),
            file_of({line("a", "1", "00"), line("a", "2", "ee"), line("b", "1", "01"), line("c", "1", "dd")}));
}

TEST_F(Choices, OfNoCheckpointLeaveNoFolder) {
  restore_choices(folder_, "", world_);
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

}  // namespace
}  // namespace octachoron
