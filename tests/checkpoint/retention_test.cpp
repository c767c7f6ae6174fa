#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "core/checkpoint/load.h"
#include "core/checkpoint/save.h"
#include "tests/checkpoint/grid_tensors.h"
#include "tests/checkpoint/mpi_scratch.h"

namespace octachoron {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void save(const MpiScratch& folder, std::int64_t step, std::int64_t keep,
          const std::string& run_id = "run-1") {
  const World world;
  const GridTensors grid(world.rank, world.size, 1, OCT_F32);
  grid.fill();
  std::string warnings;
  save_checkpoint(MPI_COMM_WORLD, folder.path(), header_of(step, run_id), grid.tensors, keep, &warnings);
  EXPECT_EQ(warnings, "");
  MPI_Barrier(MPI_COMM_WORLD);
}

std::vector<std::string> names(const MpiScratch& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  MPI_Barrier(MPI_COMM_WORLD);
  return out;
}

TEST(Retention, KeepsTheNewest) {  // F02
  const MpiScratch folder;
  for (const std::int64_t step : {10, 20, 30}) save(folder, step, 2);
  EXPECT_THAT(names(folder), ElementsAre("step-00000020.h5", "step-00000030.h5"));
  save(folder, 40, 1);
  EXPECT_THAT(names(folder), ElementsAre("step-00000040.h5"));
}

TEST(Retention, ZeroKeepsAll) {
  const MpiScratch folder;
  for (const std::int64_t step : {0, 10, 20}) save(folder, step, 0);
  EXPECT_EQ(names(folder).size(), 3u);
}

TEST(Retention, NewerOnesAndThoseOfOtherRunsStay) {
  const MpiScratch folder;
  save(folder, 10, 1, "other");
  save(folder, 50, 1);
  save(folder, 20, 1);  // resumed from before 50
  EXPECT_THAT(names(folder), ElementsAre("step-00000010.h5", "step-00000020.h5", "step-00000050.h5"));
}

TEST(Retention, DamagedOnesDoNotCount) {
  const MpiScratch folder;
  save(folder, 10, 2);
  save(folder, 20, 2);
  on_rank_0([&] { std::filesystem::resize_file(folder.path("step-00000020.h5"), 100); });
  save(folder, 30, 2);
  EXPECT_THAT(names(folder), ElementsAre("step-00000010.h5", "step-00000020.h5", "step-00000030.h5"));
}

TEST(Retention, LeftoversAreReplacedAndGo) {  // F01
  const MpiScratch folder;
  save(folder, 10, 1);
  on_rank_0([&] {
    std::ofstream(folder.path("step-00000015.h5.tmp")) << "half";
    std::ofstream(folder.path("step-00000020.h5.tmp")) << std::string(1 << 20, 'x');
    std::ofstream(folder.path("notes.txt")) << "mine";
  });
  const LatestCheckpoint latest = find_latest(MPI_COMM_WORLD, folder.path(), "run-1");
  EXPECT_EQ(latest.path, folder.path("step-00000010.h5"));
  ASSERT_EQ(latest.notes.size(), 2u);
  EXPECT_THAT(latest.notes[0], HasSubstr("step-00000020.h5.tmp' is what an interrupted save left"));
  save(folder, 20, 1);
  EXPECT_THAT(names(folder), ElementsAre("notes.txt", "step-00000020.h5"));
}

TEST(FindLatest, OfThisRunBelowAStep) {
  const MpiScratch folder;
  EXPECT_EQ(find_latest(MPI_COMM_WORLD, folder.path("none")).path, "");
  save(folder, 10, 0);
  save(folder, 20, 0);
  save(folder, 30, 0, "other");
  const LatestCheckpoint latest = find_latest(MPI_COMM_WORLD, folder.path(), "run-1");
  EXPECT_EQ(latest.header.step, 20);
  EXPECT_EQ(latest.header.seed, header_of(20).seed);
  EXPECT_THAT(latest.notes, ElementsAre(HasSubstr("is of the run 'other'")));
  EXPECT_EQ(find_latest(MPI_COMM_WORLD, folder.path(), "run-1", 20).header.step, 10);
  EXPECT_EQ(find_latest(MPI_COMM_WORLD, folder.path(), "run-1", 10).path, "");
  EXPECT_EQ(find_latest(MPI_COMM_WORLD, folder.path()).header.step, 30);
}

}  // namespace
}  // namespace octachoron
