// Faults that meet a save: every one ends on all ranks, and the older checkpoint stays.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <fstream>

#include "core/checkpoint/agreement.h"
#include "core/checkpoint/load.h"
#include "core/checkpoint/save.h"
#include "tests/checkpoint/grid_tensors.h"
#include "tests/checkpoint/mpi_scratch.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Agreement, TheLowestFailingRankSpeaksForAll) {
  const World world;
  const int failing = world.size - 1;
  const std::string sentence = refusal(ExitStatus::usage, [&] {
    together(MPI_COMM_WORLD, [&] {
      if (world.rank == failing) fail(ExitStatus::usage, "the thing");
    });
  });
  EXPECT_EQ(sentence, failing == 0 ? "the thing" : text("on rank ", failing, ", the thing"));
  refusal<CheckpointDamaged>(ExitStatus::data, [&] {
    together(MPI_COMM_WORLD, [&] {
      if (world.rank == failing) throw CheckpointDamaged("x");
    });
  });
  together(MPI_COMM_WORLD, [] {});
}

TEST(Failure, UnusableFolders) {  // K05
  const World world;
  const MpiScratch folder;
  const GridTensors grid(world.rank, world.size, 1, OCT_F32);
  on_rank_0([&] { std::ofstream(folder.path("file")) << "x"; });
  for (const std::string& bad :
       {folder.path("file"), folder.path("file/below"), std::string("/proc/octachoron")}) {
    const auto probe = refusal(ExitStatus::data, [&] { probe_directory(MPI_COMM_WORLD, bad); });
    EXPECT_THAT(probe, HasSubstr(text("'", bad, "' cannot be written to")));
    const auto save = refusal(ExitStatus::data,
                              [&] { save_checkpoint(MPI_COMM_WORLD, bad, header_of(1), grid.tensors, 1); });
    EXPECT_THAT(save, AllOf(HasSubstr(bad), HasSubstr("was not saved")));
  }
}

TEST(Failure, ProbeLeavesNothing) {
  const MpiScratch folder;
  probe_directory(MPI_COMM_WORLD, folder.path("a/b"));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  MPI_Barrier(MPI_COMM_WORLD);
  on_rank_0([&] { std::filesystem::create_directories(folder.path("a")); });
  probe_directory(MPI_COMM_WORLD, folder.path("a/b/"));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("a")));  // which was there before
}

TEST(Failure, DifferentListsAreNoticedBeforeAnyCollectiveWrite) {  // K01, K03
  const World world;
  if (world.size == 1) GTEST_SKIP() << "needs two ranks";
  const MpiScratch folder;
  GridTensors grid(world.rank, world.size, 1, OCT_F32);
  if (world.rank == 1) std::swap(grid.tensors[0], grid.tensors[1]);
  const auto sentence = refusal(ExitStatus::internal, [&] {
    save_checkpoint(MPI_COMM_WORLD, folder.path(), header_of(1), grid.tensors, 1);
  });
  EXPECT_THAT(sentence, HasSubstr("different lists"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Failure, ElementsOwnedTwiceOrByNobody) {
  const World world;
  const MpiScratch folder;
  for (const bool twice : {true, false}) {
    if (twice && world.size == 1) continue;
    GridTensors grid(world.rank, world.size, 1, OCT_F32);
    auto& range = grid.tensors[3].ranges[0];
    if (world.rank == 0) range.flat_end -= 1;
    if (twice) range = {0, 0, grid.tensors[3].tensor.layout.local_size(), nullptr, OCT_F32};
    const auto sentence = refusal(ExitStatus::internal, [&] {
      save_checkpoint(MPI_COMM_WORLD, folder.path(), header_of(1), grid.tensors, 1);
    });
    EXPECT_THAT(sentence, HasSubstr("elements of /master/layers.0.attention.out.weight, which has 144"));
  }
}

// A set of about 3 MiB, more than the disks below hold.
struct Large {
  std::vector<float> values;
  std::vector<CheckpointTensor> tensors;
  Large() {
    const World world;
    const TensorLayout layout = rows_split(768, 1024, world.size, world.rank);
    values.assign(std::size_t(layout.local_size()), 1.5f);
    tensors = {{.path = "/master/large",
                .tensor = {"large", layout},
                .ranges = {{0, 0, layout.local_size(), values.data(), OCT_F32}}}};
  }
};

void expect_failed_save(const std::string& folder, const std::string& reason) {
  const World world;
  const GridTensors small(world.rank, world.size, 1, OCT_F32);
  small.fill();
  const Large large;
  const auto sentence = refusal(
      ExitStatus::data, [&] { save_checkpoint(MPI_COMM_WORLD, folder, header_of(20), large.tensors, 1); });
  EXPECT_THAT(sentence, AllOf(HasSubstr("step-00000020.h5' was not saved"), HasSubstr(reason)));
  EXPECT_FALSE(std::filesystem::exists(folder + "/step-00000020.h5"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/step-00000020.h5.tmp"));
  const LatestCheckpoint latest = find_latest(MPI_COMM_WORLD, folder);
  EXPECT_EQ(latest.header.step, 10);
  load_checkpoint(MPI_COMM_WORLD, latest.path, small.tensors);
  EXPECT_EQ(small.wrong(), 0);
}

void save_small(const std::string& folder, std::int64_t step) {
  const World world;
  const GridTensors grid(world.rank, world.size, 1, OCT_F32);
  grid.fill();
  save_checkpoint(MPI_COMM_WORLD, folder, header_of(step), grid.tensors, 1);
}

TEST(Failure, FullDisk) {  // K09
  const World world;
  const MpiScratch folder;
  const std::string disk = folder.path("disk");
  int mounted = 0;
  on_rank_0([&] {
    std::filesystem::create_directory(disk);
    mounted = ::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") == 0;
  });
  MPI_Bcast(&mounted, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (!mounted) GTEST_SKIP() << "mounting a small disk needs root";
  save_small(disk, 10);
  expect_failed_save(disk, "No space left on device");
  save_small(disk, 30);  // and the next save works
  EXPECT_EQ(find_latest(MPI_COMM_WORLD, disk).header.step, 30);
  MPI_Barrier(MPI_COMM_WORLD);
  on_rank_0([&] { ::umount(disk.c_str()); });
}

// Files of this process must not grow beyond a size: what a quota looks like, and not on rank 0 alone.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(bool here) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    if (here) limit.rlim_cur = 256 << 10;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(Failure, QuotaOnAllRanks) {
  const MpiScratch folder;
  save_small(folder.path(), 10);
  const FileSizeLimit limit(true);
  expect_failed_save(folder.path(), "File too large");
}

TEST(Failure, QuotaOnSomeRanks) {  // F14
  const World world;
  if (world.size == 1) GTEST_SKIP() << "needs two ranks";
  const MpiScratch folder;
  save_small(folder.path(), 10);
  const FileSizeLimit limit(world.rank != 0);
  expect_failed_save(folder.path(), "File too large");
}

}  // namespace
}  // namespace octachoron
