// saver DIR: goes on from the newest checkpoint and saves step after step (keep 1) until it is killed; writes
// its process ids to DIR/pid-<rank>. saver DIR check: status 0 if the newest checkpoint is whole and there
// are no more than 2 files.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/checkpoint/folder.h"
#include "core/checkpoint/inspect.h"
#include "core/checkpoint/load.h"
#include "core/checkpoint/save.h"

namespace octachoron {
namespace {

constexpr std::int64_t kRows = 2048, kColumns = 1024;  // 8 MiB

// Every element holds the step, so that a file of two steps is seen even if its checksums were right.
void save_steps(const std::string& directory, int rank, int ranks) {
  const LatestCheckpoint latest = find_latest(MPI_COMM_WORLD, directory);
  const TensorLayout layout = rows_split(kRows, kColumns, ranks, rank);
  std::vector<float> values(std::size_t(layout.local_size()));
  for (std::int64_t step = latest.header.step + 1;; ++step) {
    std::fill(values.begin(), values.end(), float(step));
    const CheckpointTensor tensor{.path = "/master/x",
                                  .tensor = {"x", layout},
                                  .ranges = {{0, 0, layout.local_size(), values.data(), OCT_F32}}};
    save_checkpoint(MPI_COMM_WORLD, directory, {.step = step, .run_id = "r"}, {tensor}, 1);
  }
}

int check(const std::string& directory) {
  const LatestCheckpoint latest = find_latest(directory, "r");
  if (latest.path.empty()) return std::puts("no checkpoint"), 1;
  const Inspection verified = verify_checkpoint(latest.path);
  std::printf("%s", verified.text.c_str());
  for (const std::string& note : latest.notes) std::printf("%s\n", note.c_str());
  std::vector<float> values(std::size_t(kRows * kColumns));
  const CheckpointTensor tensor{.path = "/master/x",
                                .tensor = {"x", replicated(kRows, kColumns)},
                                .ranges = {{0, 0, kRows * kColumns, values.data(), OCT_F32}}};
  CheckpointFile(latest.path).read(tensor);
  for (const float value : values)
    if (value != float(latest.header.step)) return std::puts("values of another step"), 1;
  if (folder_entries(directory).size() > 2) return std::puts("more than keep + 1 files"), 1;
  return verified.status == ExitStatus::done ? 0 : 1;
}

}  // namespace
}  // namespace octachoron

int main(int argc, char** argv) {
  int provided = 0, rank = 0, ranks = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::string directory = argv[1];
  int status = 0;
  if (argc > 2) {
    status = octachoron::check(directory);
  } else {
    std::ofstream(directory + "/pid-" + std::to_string(rank)) << ::getpid() << std::endl;
    octachoron::save_steps(directory, rank, ranks);
  }
  MPI_Finalize();
  return status;
}
