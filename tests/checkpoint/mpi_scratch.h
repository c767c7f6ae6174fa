#pragma once
/// A folder that all ranks of a test share, and what they need to expect the same failure.
#include <gtest/gtest.h>
#include <mpi.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "core/base/error.h"

namespace octachoron {

struct World {
  int rank = 0, size = 1;
  World() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
};

class MpiScratch {
 public:
  MpiScratch() {
    char pattern[256] = {};
    if (world_.rank == 0) {
      std::strncpy(pattern, (std::filesystem::temp_directory_path() / "octachoron-checkpoint-XXXXXX").c_str(),
                   255);
      if (!::mkdtemp(pattern)) std::abort();
    }
    MPI_Bcast(pattern, sizeof pattern, MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = pattern;
  }
  ~MpiScratch() {
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;
    if (world_.rank == 0) std::filesystem::remove_all(path_, ignored);
  }
  MpiScratch(const MpiScratch&) = delete;
  MpiScratch& operator=(const MpiScratch&) = delete;

  std::string path(const std::string& name = "") const { return name.empty() ? path_ : path_ + "/" + name; }

 private:
  World world_;
  std::string path_;
};

/// Rank 0 does it, the others wait.
inline void on_rank_0(const std::function<void()>& action) {
  if (World().rank == 0) action();
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Runs the collective `action`, which must fail on this and every rank with the type and status.
template <class E = Error>
std::string refusal(ExitStatus status, const std::function<void()>& action) {
  std::string sentence;
  try {
    action();
    ADD_FAILURE() << "was not refused";
  } catch (const E& error) {
    EXPECT_EQ(int(error.status()), int(status)) << error.what();
    sentence = error.what();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return sentence;
}

}  // namespace octachoron
