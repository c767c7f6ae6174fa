// Contract 1.2 over the grids. A program argument is not needed: the short form takes up to 8 ranks, the long
// form up to 16.
#include <gtest/gtest.h>

#include "tests/parallel/sweep.h"

namespace octachoron::parity {

namespace {

class Parity : public testing::Test {
 protected:
  void sweep(const std::vector<SweepCase>& cases) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    Sweep sweep(MPI_COMM_WORLD);
    for (const SweepCase& at : cases) {
      const Row row = sweep.measure(at);
      if (rank == 0) expect_parity(row);
    }
  }
  static const ModelCase& narrow() { return models()[0]; }
  static const ModelCase& wide() { return models()[1]; }
  static const ModelCase& grouped() { return models()[2]; }
};

#ifdef OCTACHORON_PARITY_LONG
constexpr int kRanks = 16;

TEST_F(Parity, NarrowTiedFp32) {
  sweep(sweep_cases(narrow(), true, false, kRanks));
}
TEST_F(Parity, NarrowTiedFp64) {
  sweep(sweep_cases(narrow(), true, true, kRanks));
}
TEST_F(Parity, NarrowUntiedFp32) {
  sweep(sweep_cases(narrow(), false, false, kRanks));
}
TEST_F(Parity, NarrowUntiedFp64) {
  sweep(sweep_cases(narrow(), false, true, kRanks));
}
TEST_F(Parity, WideTiedFp32) {
  sweep(sweep_cases(wide(), true, false, kRanks));
}
TEST_F(Parity, WideTiedFp64) {
  sweep(sweep_cases(wide(), true, true, kRanks));
}
TEST_F(Parity, WideUntiedFp32) {
  sweep(sweep_cases(wide(), false, false, kRanks));
}
TEST_F(Parity, WideUntiedFp64) {
  sweep(sweep_cases(wide(), false, true, kRanks));
}
TEST_F(Parity, GroupedFp32) {
  sweep(sweep_cases(grouped(), false, false, kRanks));
}
TEST_F(Parity, GroupedFp64) {
  sweep(sweep_cases(grouped(), false, true, kRanks));
}
#else
TEST_F(Parity, Fp32) {
  sweep({{&narrow(), true, false, 3, 2, true},
         {&narrow(), true, false, 2, 3, false},
         {&narrow(), true, false, 1, 6, true},
         {&narrow(), false, false, 6, 1, true},
         {&wide(), false, false, 1, 4, true},
         {&wide(), false, false, 2, 2, false},
         {&grouped(), false, false, 1, 4, true}});
}
TEST_F(Parity, Fp64) {
  sweep({{&narrow(), true, true, 2, 3, true},
         {&narrow(), true, true, 1, 6, false},
         {&wide(), false, true, 4, 1, true},
         {&wide(), false, true, 1, 4, true},
         {&grouped(), false, true, 1, 4, false},
         {&grouped(), true, true, 2, 2, true}});
}
#endif

}  // namespace

}  // namespace octachoron::parity
