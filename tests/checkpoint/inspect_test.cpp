#include "core/checkpoint/inspect.h"

#include <gmock/gmock.h>

#include <fstream>

#include "core/checkpoint/load.h"
#include "core/checkpoint/save.h"
#include "core/checkpoint/stage.h"
#include "tests/checkpoint/grid_tensors.h"
#include "tests/checkpoint/mpi_scratch.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Inspect : public testing::Test {
 protected:
  std::string save(const std::string& folder, std::int64_t step) {
    const std::string path =
        save_checkpoint(MPI_COMM_WORLD, folder_.path(folder), header_of(step), grid_.tensors, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    return path;
  }

  World world_;
  MpiScratch folder_;
  GridTensors grid_{world_.rank, world_.size, 1, OCT_F32};
};

TEST_F(Inspect, ListNamesEveryFileNewestFirst) {
  grid_.fill();
  save("a", 10);
  const std::string newer = save("a", 20);
  on_rank_0([&] {
    std::ofstream(folder_.path("a/step-00000030.h5.tmp")) << "x";
    std::ofstream(folder_.path("a/step-00000025.h5")) << "x";
  });
  const std::string text = list_checkpoints(folder_.path("a")).text;
  EXPECT_THAT(text, HasSubstr("step-00000030.h5.tmp: 1 bytes, what an interrupted save left"));
  EXPECT_THAT(text, HasSubstr("step-00000025.h5: 1 bytes, not usable"));
  EXPECT_THAT(text, HasSubstr("bytes, step 20, samples 160, tokens 20480, skipped 1, seed"));
  EXPECT_LT(text.find("step-00000020"), text.find("step-00000010"));
  EXPECT_THROW(list_checkpoints(folder_.path("none")), Error);
}

TEST_F(Inspect, ShowAndVerify) {
  grid_.fill();
  const std::string path = save("a", 10);
  EXPECT_THAT(
      show_checkpoint(path).text,
      AllOf(HasSubstr("[run]\nsteps = 100\n"), HasSubstr("/master/norm.weight f32 [6] checksum "),
            HasSubstr("/master/layers.0.attention.out.weight f32 [6, 24]"), HasSubstr("7 datasets, ")));
  EXPECT_EQ(verify_checkpoint(path).status, ExitStatus::done);
  EXPECT_EQ(verify_checkpoint(path).text, path + ": complete, 7 datasets as written\n");
}

TEST_F(Inspect, DiffNamesTensorsAndTheLargestDifference) {
  grid_.fill();
  const std::string first = save("a", 10), same = save("b", 11);
  EXPECT_EQ(diff_checkpoints(first, same).status, ExitStatus::done);
  EXPECT_THAT(diff_checkpoints(first, same).text,
              AllOf(HasSubstr("attribute step: 10 and 11"), HasSubstr("7 tensors are the same")));
  grid_.each([](const std::string& path, std::int64_t index, DType, void* at) {
    if (path == "/master/norm.weight" && index < 2) *static_cast<float*>(at) = float(3 + index);
  });
  grid_.tensors.erase(grid_.tensors.begin());
  const std::string other = save("c", 10);
  grid_.each([](const std::string& path, std::int64_t index, DType, void* at) {
    if (path == "/master/norm.weight" && index < 2) *static_cast<float*>(at) = float(5 + 3 * index);
  });
  const Inspection diff = diff_checkpoints(save("d", 10), other);
  EXPECT_EQ(diff.status, ExitStatus::data);
  EXPECT_EQ(
      diff.text,
      "/master/norm.weight: 2 of 6 elements differ, by 4 at most\n5 tensors are the same, bit by bit\n");
  EXPECT_THAT(diff_checkpoints(first, other).text, HasSubstr("embedding.token.weight: only in " + first));
  EXPECT_THAT(diff_checkpoints(other, first).text, HasSubstr("embedding.token.weight: only in " + first));
}

TEST_F(Inspect, DiffSeesTheSignOfZero) {
  const auto set = [&](float value) {
    grid_.fill();
    grid_.each([&](const std::string& path, std::int64_t index, DType, void* at) {
      if (path == "/master/norm.weight" && index == 0) *static_cast<float*>(at) = value;
    });
  };
  set(0.0f);
  const std::string first = save("a", 10);
  set(-0.0f);
  const Inspection diff = diff_checkpoints(first, save("b", 10));
  EXPECT_EQ(diff.status, ExitStatus::data);
  EXPECT_THAT(diff.text, HasSubstr("norm.weight: 1 of 6 elements differ, by 0 at most"));
}

TEST(Stage, PartsAreBoundedAndCoverTheRanges) {  // more than one collective write a tensor
  std::vector<double> values(40);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = double(i);
  const CheckpointTensor tensor{
      .path = "/x",
      .tensor = {"x", rows_split(7, 10, 1, 0)},
      .ranges = {{0, 5, 25, values.data(), OCT_F64}, {0, 30, 50, values.data() + 20, OCT_F64}}};
  std::vector<float> staged;
  std::uint64_t sum = 0;
  for (const OwnedRange& part : cut(tensor, 8)) {
    EXPECT_LE(part.flat_end - part.flat_begin, 8);
    const StagedPart bytes = stage(tensor, part);
    const auto* begin = reinterpret_cast<const float*>(bytes.values.data());
    staged.insert(staged.end(), begin, begin + bytes.count);
    sum += bytes.checksum;
  }
  EXPECT_EQ(staged, std::vector<float>(values.begin(), values.end()));
  EXPECT_EQ(sum, checksum(5, staged.data(), 20) + checksum(30, staged.data() + 20, 20));
}

TEST(CheckpointNames, StepsOfNames) {
  EXPECT_EQ(checkpoint_name(100), "step-00000100.h5");
  EXPECT_EQ(step_of_name("step-00000100.h5"), 100);
  EXPECT_EQ(step_of_name(checkpoint_name(123456789012)), 123456789012);
  for (const char* other : {"step-100.h5", "step-00000100.h5.tmp", "step-0000010x.h5", "stop-00000100.h5",
                            "step-00000100.h6", "step-000000000100.h5"})
    EXPECT_EQ(step_of_name(other), -1) << other;
}

}  // namespace
}  // namespace octachoron
