#pragma once
/// The comparison of grids (contract 1.2): every legal dp x tp grid against the same run on one rank.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/parallel/harness.h"

namespace octachoron::parity {

inline constexpr int kSteps = 10;

/// A model and a global batch, the same on all grids.
struct ModelCase {
  std::string name;
  int layers, hidden, heads, ffn, vocab, sequence, global;
  std::string family = "gpt2";
  int kv_heads = heads;
};
/// "narrow": a vocabulary that no tp divides, heads for tp = 3, 6, 12. "wide": three layers, larger.
/// "grouped": Llama with two key and value heads, which tp = 4 and 8 share.
const std::vector<ModelCase>& models();

struct SweepCase {
  const ModelCase* model;
  bool tied;
  std::string precision;  ///< backend.precision
  int dp, tp;
  bool sequence_parallel;

  int ranks() const { return dp * tp; }
  /// Sequences a rank computes at once: accumulation over several micro-batches where dp leaves several
  /// sequences.
  int micro() const;
  std::string reference_key() const;  ///< of the run on one rank that it is compared with
  std::string describe() const;
};

/// Every legal grid of at most `ranks` ranks, sequence parallelism on and (tp > 1) off.
std::vector<SweepCase> sweep_cases(const ModelCase& model, bool tied, const std::string& precision,
                                   int ranks);

struct Limits {
  double loss, gradient_1, zero_gradient, gradient_10, norm;
};
/// Contract 1.2; where operands and activations are narrower than sums, what core/docs/grids.md derives.
Limits limits(const SweepCase& at);

/// How far a grid is from one rank.
struct Row {
  SweepCase at{};
  double loss = 0;          ///< relative, the largest of kSteps steps
  Deviation gradient_1;     ///< step 1, see relative_deviation()
  Deviation zero_gradient;  ///< step 1, see zero_deviation()
  Deviation gradient_10;    ///< step 10
  double norm = 0;  ///< relative, of the reported norm against that of the assembled gradient, both steps
  bool same_initial = false;  ///< assembled masters before step 1, bit by bit
  double learned = 0;         ///< nats that the loss fell
  double moved = 0;           ///< ||masters after - before|| / ||before||
};

/// Keeps the runs on one rank that others are compared with.
class Sweep {
 public:
  explicit Sweep(MPI_Comm comm);
  /// Collective over `comm`. Rank 0 returns the row, the others an empty one.
  Row measure(const SweepCase& at);

 private:
  void make_reference(const SweepCase& at);
  Parameters parameters(const SweepCase& at) const;

  MPI_Comm comm_;
  int rank_ = 0;
  std::map<std::string, std::unique_ptr<TokenFileForTests>> data_;  // by model
  std::map<std::string, Trajectory> references_;                    // filled on rank 0 only
};

/// Asserts the contract on a row (GoogleTest).
void expect_parity(const Row& row);

}  // namespace octachoron::parity
