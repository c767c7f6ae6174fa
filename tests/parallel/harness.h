#pragma once
/// Runs TrainingSession, the class that `octachoron train` runs, on the first ranks of a launch, and hands
/// out what it computed as global tensors.
#include <mpi.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/data/batch.h"
#include "core/train/session.h"
#include "tests/parallel/tensors.h"

namespace octachoron::parity {

/// A file of tokens that all ranks of `comm` read and that goes when this object does. Both are collective.
class TokenFileForTests {
 public:
  /// Ids below `vocab` that can be learned: mostly a function of the id before, sometimes at random.
  TokenFileForTests(MPI_Comm comm, int vocab, int tokens);
  ~TokenFileForTests();
  TokenFileForTests(const TokenFileForTests&) = delete;
  TokenFileForTests& operator=(const TokenFileForTests&) = delete;
  const std::string& path() const { return path_; }

 private:
  MPI_Comm comm_;
  std::string path_;
};

/// Parsed, completed and checked, as `train` does it.
Parameters parameters_of(const std::string& text, const std::vector<std::string>& overrides);

/// A global batch, row-major [global, sequence]; -1 in targets is ignored.
struct GlobalBatch {
  std::vector<std::int32_t> ids, targets;
};

/// One session on all ranks of `comm`. Everything is collective over it unless said.
class Trial {
 public:
  Trial(const Parameters& parameters, MPI_Comm comm, Casts casts = Casts::fused);

  const Parameters& parameters() const { return parameters_; }
  TrainingSession& session() { return session_; }
  const ProcessGrid& grid() const { return session_.grid(); }
  MPI_Comm comm() const { return world_.comm(); }
  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }

  /// The next step on the training data.
  StepResult step();
  /// Another batch and rate in place of the next step; it does not count, and step() goes on as if it had not
  /// been.
  StepResult step(const GlobalBatch& batch, double rate);
  /// The same as --check runs it, operation by operation.
  /// \param again the last step once more, after one that updated nothing
  /// \param origin gets where the first value came from that is not finite, as far as this rank saw
  StepResult checked_step(const GlobalBatch& batch, double rate, bool again = false, Origin* origin = nullptr);
  double validate(const GlobalBatch& batch);
  /// What step() would train on next, as a global batch; local.
  GlobalBatch next_batch() const;

  Tensors gradients() { return assemble(session_.gradients(), "/gradient/", comm()); }
  Tensors masters() { return assemble(session_.state(), "/master/", comm()); }
  /// All that outlives a step on this rank (masters, moments), bit by bit; local.
  std::string state_bytes();
  /// Sets one element of a master on every rank that holds it; local.
  void set_master(const std::string& tensor, std::int64_t row, std::int64_t column, double value);
  /// Fills all memory but masters and moments with NaN; local.
  void poison();
  /// Names of replicated tensors (master or moment) whose bits differ on a rank from those of its tp = 0;
  /// alike on all ranks.
  std::vector<std::string> unequal_copies();

 private:
  RankBatch cut(const GlobalBatch& batch) const;

  Parameters parameters_;
  World world_;
  TokenData data_;
  SampleOrder order_;
  BatchShape shape_;
  Backend backend_;
  TrainingSession session_;
  std::int64_t steps_ = 0;
};

/// What a run computed, step by step (index 0 is step 1).
struct Trajectory {
  std::vector<double> loss, grad_norm;
  std::map<int, Tensors> gradients;  ///< of the steps asked for, before clipping
  Tensors initial, masters;          ///< before step 1, after the last step
};
/// \throws Error(internal) if a step was not finite
Trajectory run(const Parameters& parameters, MPI_Comm comm, int steps,
               const std::vector<int>& gradient_steps);

/// Collective over `comm`: its first `ranks` ranks call action(their communicator), the others sleep until
/// they are done. An exception in an action ends the whole launch, as the other ranks would wait for ever.
void on_first_ranks(MPI_Comm comm, int ranks, const std::function<void(MPI_Comm)>& action);

}  // namespace octachoron::parity
