// Files that are not what was written: refused, named, and passed over by automatic resume.
#include <gmock/gmock.h>
#include <hdf5.h>

#include <fstream>

#include "core/checkpoint/inspect.h"
#include "core/checkpoint/load.h"
#include "core/checkpoint/save.h"
#include "tests/checkpoint/grid_tensors.h"
#include "tests/checkpoint/mpi_scratch.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Damage : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::int64_t step : {10, 20}) {
      grid_.fill();
      newest_ = save_checkpoint(MPI_COMM_WORLD, folder_.path(), header_of(step), grid_.tensors, 0);
    }
    size_ = std::filesystem::file_size(newest_);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // Loading is refused on all ranks, and automatic resume takes step 10 and names the file it passed over.
  void expect_passed_over(const std::string& why) {
    const auto sentence = refusal<CheckpointDamaged>(
        ExitStatus::data, [&] { load_checkpoint(MPI_COMM_WORLD, newest_, grid_.tensors); });
    EXPECT_THAT(sentence, AllOf(HasSubstr(newest_), HasSubstr(why)));
    const LatestCheckpoint latest = find_latest(MPI_COMM_WORLD, folder_.path(), "run-1");
    EXPECT_EQ(latest.path, folder_.path("step-00000010.h5"));
    ASSERT_EQ(latest.notes.size(), 1u);
    EXPECT_THAT(latest.notes[0], AllOf(HasSubstr(newest_), HasSubstr(why)));
    EXPECT_EQ(verify_checkpoint(newest_).status, ExitStatus::data);
    load_checkpoint(MPI_COMM_WORLD, latest.path, grid_.tensors);
    EXPECT_EQ(grid_.wrong(), 0);
  }

  void cut_to(std::uintmax_t bytes) {
    on_rank_0([&] { std::filesystem::resize_file(newest_, bytes); });
  }

  World world_;
  MpiScratch folder_;
  GridTensors grid_{world_.rank, world_.size, world_.size, OCT_F32};
  std::string newest_;
  std::uintmax_t size_ = 0;
};

TEST_F(Damage, CutByAKilobyte) {  // K07
  cut_to(size_ - 1024);
  expect_passed_over("truncated file");
}

TEST_F(Damage, CutToItsFirstBytes) {
  cut_to(96);
  expect_passed_over("truncated file");
}

TEST_F(Damage, Empty) {
  cut_to(0);
  expect_passed_over("file signature not found");
}

TEST_F(Damage, NotHdf5AtAll) {
  on_rank_0([&] { std::ofstream(newest_) << std::string(5000, 'x'); });
  expect_passed_over("file signature not found");
}

TEST_F(Damage, WithoutTheMarkOfCompleteness) {  // F01
  on_rank_0([&] {
    const hid_t file = H5Fopen(newest_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Adelete(file, "complete");
    H5Fclose(file);
  });
  expect_passed_over("complete is missing");
}

TEST_F(Damage, GroupsOfDifferentSteps) {  // F18
  on_rank_0([&] {
    const hid_t file = H5Fopen(newest_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t group = H5Gopen2(file, "/master", H5P_DEFAULT);
    const hid_t attribute = H5Aopen(group, "step", H5P_DEFAULT);
    const std::uint64_t other = 19;
    H5Awrite(attribute, H5T_NATIVE_UINT64, &other);
    H5Aclose(attribute);
    H5Gclose(group);
    H5Fclose(file);
  });
  expect_passed_over("the group /master/ is of step 19, the file of step 20");
}

TEST_F(Damage, AFlippedBitOfData) {
  on_rank_0([&] {
    const hid_t file = H5Fopen(newest_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t dataset = H5Dopen2(file, "/master/layers.1.mlp.gate_up.weight", H5P_DEFAULT);
    const auto place = std::streamoff(H5Dget_offset(dataset)) + 101;
    H5Dclose(dataset);
    H5Fclose(file);
    std::fstream bytes(newest_, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(place);
    const int before = bytes.get();
    bytes.seekp(place);
    bytes.put(char(before ^ 4));
  });
  const auto sentence = refusal<CheckpointDamaged>(
      ExitStatus::data, [&] { load_checkpoint(MPI_COMM_WORLD, newest_, grid_.tensors); });
  EXPECT_THAT(sentence, HasSubstr("the checksum of /master/layers.1.mlp.gate_up.weight"));
  const Inspection verified = verify_checkpoint(newest_);
  EXPECT_EQ(verified.status, ExitStatus::data);
  EXPECT_THAT(verified.text, HasSubstr("gate_up"));
  EXPECT_EQ(find_latest(MPI_COMM_WORLD, folder_.path(), "run-1", 20).header.step,
            10);  // what resume asks for next
}

TEST_F(Damage, AnotherModel) {
  GridTensors other(world_.rank, world_.size, 1, OCT_F32);
  other.tensors[6].tensor.layout = as_vector(replicated(1, 5, world_.rank == 0));
  other.tensors[6].ranges.clear();
  const auto shape =
      refusal(ExitStatus::data, [&] { load_checkpoint(MPI_COMM_WORLD, newest_, other.tensors); });
  EXPECT_THAT(shape, HasSubstr("another shape of /master/norm.weight ([6] in the file, [5] in this run)"));
  other.tensors[6].path = "/master/absent";
  const auto absent =
      refusal(ExitStatus::data, [&] { load_checkpoint(MPI_COMM_WORLD, newest_, other.tensors); });
  EXPECT_THAT(absent, HasSubstr("has no /master/absent"));
}

TEST_F(Damage, MissingAndLeftover) {  // F01, K08
  refusal(ExitStatus::data, [&] { load_checkpoint(MPI_COMM_WORLD, folder_.path("none.h5"), grid_.tensors); });
  on_rank_0([&] {
    std::filesystem::rename(newest_, newest_ + ".tmp");
    std::filesystem::resize_file(newest_ + ".tmp", 1000);
  });
  refusal<CheckpointDamaged>(ExitStatus::data,
                             [&] { load_checkpoint(MPI_COMM_WORLD, newest_ + ".tmp", grid_.tensors); });
  const LatestCheckpoint latest = find_latest(MPI_COMM_WORLD, folder_.path());
  EXPECT_EQ(latest.header.step, 10);
  ASSERT_EQ(latest.notes.size(), 1u);
  EXPECT_THAT(latest.notes[0], AllOf(HasSubstr(newest_ + ".tmp"), testing::Not(HasSubstr("h5clear"))));
}

}  // namespace
}  // namespace octachoron
