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
  sweep(sweep_cases(narrow(), true, "fp32", kRanks));
}
TEST_F(Parity, NarrowTiedFp64) {
  sweep(sweep_cases(narrow(), true, "fp64", kRanks));
}
TEST_F(Parity, NarrowUntiedFp32) {
  sweep(sweep_cases(narrow(), false, "fp32", kRanks));
}
TEST_F(Parity, NarrowUntiedFp64) {
  sweep(sweep_cases(narrow(), false, "fp64", kRanks));
}
TEST_F(Parity, WideTiedFp32) {
  sweep(sweep_cases(wide(), true, "fp32", kRanks));
}
TEST_F(Parity, WideTiedFp64) {
  sweep(sweep_cases(wide(), true, "fp64", kRanks));
}
TEST_F(Parity, WideUntiedFp32) {
  sweep(sweep_cases(wide(), false, "fp32", kRanks));
}
TEST_F(Parity, WideUntiedFp64) {
  sweep(sweep_cases(wide(), false, "fp64", kRanks));
}
TEST_F(Parity, GroupedFp32) {
  sweep(sweep_cases(grouped(), false, "fp32", kRanks));
}
TEST_F(Parity, GroupedFp64) {
  sweep(sweep_cases(grouped(), false, "fp64", kRanks));
}
TEST_F(Parity, NarrowTiedBf16) {
  sweep(sweep_cases(narrow(), true, "bf16", kRanks));
}
TEST_F(Parity, WideUntiedBf16) {
  sweep(sweep_cases(wide(), false, "bf16", kRanks));
}
TEST_F(Parity, GroupedBf16) {
  sweep(sweep_cases(grouped(), false, "bf16", kRanks));
}
#else
TEST_F(Parity, Fp32) {
  sweep({{&narrow(), true, "fp32", 3, 2, true},
         {&narrow(), true, "fp32", 2, 3, false},
         {&narrow(), true, "fp32", 1, 6, true},
         {&narrow(), false, "fp32", 6, 1, true},
         {&wide(), false, "fp32", 1, 4, true},
         {&wide(), false, "fp32", 2, 2, false},
         {&grouped(), false, "fp32", 1, 4, true}});
}
TEST_F(Parity, Fp64) {
  sweep({{&narrow(), true, "fp64", 2, 3, true},
         {&narrow(), true, "fp64", 1, 6, false},
         {&wide(), false, "fp64", 4, 1, true},
         {&wide(), false, "fp64", 1, 4, true},
         {&grouped(), false, "fp64", 1, 4, false},
         {&grouped(), true, "fp64", 2, 2, true}});
}
TEST_F(Parity, Bf16) {
  sweep({{&narrow(), true, "bf16", 6, 1, true},
         {&narrow(), true, "bf16", 1, 6, false},
         {&wide(), false, "bf16", 1, 4, true},
         {&wide(), false, "bf16", 2, 2, false},
         {&grouped(), false, "bf16", 1, 4, true},
         {&grouped(), true, "bf16", 2, 2, false}});
}
#endif

}  // namespace

}  // namespace octachoron::parity
