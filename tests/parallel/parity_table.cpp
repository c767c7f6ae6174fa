// Prints the deviations of every grid from one rank as Markdown: the text of core/docs/grids.md after its
// introduction.
#include <mpi.h>

#include <cstdio>
#include <string>

#include "tests/parallel/sweep.h"

using namespace octachoron;
using namespace octachoron::parity;

namespace {

constexpr const char* kIntroduction = R"(# Grids agree

A grid changes the order in which numbers are added, and nothing else: the initial weights are drawn by global element,
every grid consumes the same samples, and the loss is the mean over all valid targets. So a run on any dp x tp grid departs
from the run on one rank by rounding only. This is measured here on three small models; the tests `parity` and `parity_long`
hold the limits.

| | FP32 | FP64 | BF16 |
|---|---|---|---|
| loss of 10 steps, relative, the largest | 1e-6 | 1e-12 | u = 2^-9 |
| gradient of each tensor at step 1, \|\|g - g0\|\| / \|\|g0\|\| | 5e-6 | 1e-11 | (4 layers + 2) u; tp = 1: 1e-4 |
| key bias at step 1, \|\|g\|\| / \|\|gradient of its layer\|\| | 1e-7 | 1e-14 | 1e-4 |
| gradient of each tensor at step 10 | 1e-4 | 1e-10 | 3 (4 layers + 2) u |

**BF16** has 8 bits, so rounding to nearest moves a value by at most u = 2^-9 = 0.2 % of itself. Weights and activations are
BF16, and the partial products of a row-parallel layer are rounded to it before they are added over tp: a tp grid rounds
where one rank does not. That happens twice a layer forwards and twice backwards, and at the embedding and the head, 4 layers
+ 2 places; each moves what follows by at most u of itself, and a norm keeps that ratio, so to first order the gradient of a
tensor moves by no more than (4 layers + 2) u of its norm (0.020 for 2 layers, 0.027 for 3). The loss is a mean over hundreds
of tokens whose roundings are independent: it stays within one u. Without tp the same values are rounded at the same
places; only weight gradients are added in another order, in FP32, and where a product is cut in other blocks an FP32
difference may now and then round to the other BF16 neighbour, so 1e-4. Weights are rounded after each step too, so
differences of one step enter the next, also without tp: three times the bound at step 10. Gradient norms agree with the assembled gradients to
1e-6 in BF16 too, as gradients are FP32. The largest deviations of the tables below are about 0.25 u in the loss, 0.6 of the
bound at step 1 and 0.3 of that at step 10.

The key rows of the qkv bias have a column of their own: their exact gradient is zero (they add the same to all scores of a
row), so what is left of it is rounding and has no relative error. They are left out of the other columns. Adam divides a
gradient by its own size, so it turns their rounding into whole steps: these rows of the masters may differ visibly between
grids, without effect on the loss. FP64 tells rounding from faults: a difference that shrinks from 1e-7 to 1e-15 is rounding.

- narrow: 2 layers, hidden 48, 12 heads, ffn 96, vocabulary 50 (not a multiple of 3, 4, 6, 12), sequence 24, 48 sequences a step
- wide: 3 layers, hidden 64, 8 heads, ffn 256, vocabulary 256, sequence 32, 16 sequences a step
- grouped: Llama, 2 layers, hidden 64, 8 heads, 2 key and value heads (shared by 2 or 4 ranks at tp 4 and 8), ffn 96,
  vocabulary 50, sequence 24, 16 sequences a step

All start from weights of deviation 0.08 and learn at 3e-3 after a warm-up of 4 steps: without one, the first step of Adam is
the rate times the sign of each gradient, and rounding decides the sign where a gradient is near zero.

SP is `parallel.sequence_parallel`; accumulation x micro is `batch.global` / (`batch.micro` x dp) and `batch.micro`. The
reference accumulates micro-batches of 2. Gradients are those before clipping, put together from all ranks in FP64; the name
beside a deviation is the tensor where it is largest. This file is the output of

    ninja -C build parity_table && tests/mpirun.sh 16 build/tests/parallel/parity_table > core/docs/grids.md
)";

void print_heading(const std::string& what) {
  std::printf("\n## %s\n\n", what.c_str());
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

void print_table(Sweep& sweep, int rank, const ModelCase& model, bool tied, const char* precision,
                 int ranks) {
  const std::vector<SweepCase> cases = sweep_cases(model, tied, precision, ranks);
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
  if (rank == 0 && argc == 1) std::printf("%s", kIntroduction);
  {
    Sweep sweep(MPI_COMM_WORLD);
    for (const char* precision : {"fp32", "fp64", "bf16"}) {
      if (argc > 1 && std::string(argv[1]) != precision) continue;
      print_table(sweep, rank, models()[0], true, precision, ranks);
      print_table(sweep, rank, models()[1], false, precision, ranks);
      print_table(sweep, rank, models()[2], false, precision, ranks);
    }
  }
  MPI_Finalize();
  return 0;
}
