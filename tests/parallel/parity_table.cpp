// Prints the deviations of every grid from one rank as Markdown: the text of core/docs/grids.md after its
// introduction.
#include <mpi.h>

#include <cstdio>

#include "tests/parallel/sweep.h"

using namespace octachoron;
using namespace octachoron::parity;

namespace {

void print_heading(const std::string& what) {
  std::printf("\n### %s\n\n", what.c_str());
  std::printf(
      "| dp x tp | SP | accumulation x micro | loss | gradient, step 1 | key bias | gradient, step 10 |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
}

void print_row(const Row& row) {
  const SweepCase& at = row.at;
  const char* sequence_parallel = at.tp == 1 ? "" : at.sequence_parallel ? "on" : "off";
  std::printf("| %d x %d | %s | %d x %d | %.1e | %.1e `%s` | %.1e | %.1e `%s` |\n", at.dp, at.tp,
              sequence_parallel, at.model->global / at.dp / at.micro(), at.micro(), row.loss,
              row.gradient_1.value, row.gradient_1.tensor.c_str(), row.zero_gradient.value,
              row.gradient_10.value, row.gradient_10.tensor.c_str());
  std::fflush(stdout);
}

void print_table(Sweep& sweep, int rank, const ModelCase& model, bool tied, bool fp64, int ranks) {
  const std::vector<SweepCase> cases = sweep_cases(model, tied, fp64, ranks);
  if (rank == 0) print_heading(cases.front().reference_key());
  for (const SweepCase& at : cases) {
    const Row row = sweep.measure(at);
    if (rank == 0) print_row(row);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0, rank = 0, ranks = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  {
    Sweep sweep(MPI_COMM_WORLD);
    for (const bool fp64 : {false, true}) {
      print_table(sweep, rank, models()[0], true, fp64, ranks);
      print_table(sweep, rank, models()[1], false, fp64, ranks);
    }
  }
  MPI_Finalize();
  return 0;
}
