#pragma once
/// Comparisons on a small model of up to four ranks, and programs with a fault planted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/compare/comparison.h"
#include "core/train/session.h"
#include "tests/parallel/harness.h"

namespace octachoron::compare_test {

using Strings = std::vector<std::string>;

/// Changes the programs of a session before it is made, and its state after it is initialised; both may be
/// empty.
struct Plant {
  std::function<void(RankPrograms&)> programs;
  std::function<void(TrainingSession&)> state;
};

class CompareTest : public testing::Test {
 protected:
  /// Two layers of hidden 32, 4 heads, sequence 16; 8 sequences a step in micro-batches of 2.
  Variant variant(const std::string& name, const Strings& overrides) const;
  /// Collective. \param planted by name of variant
  Comparison compare(const std::vector<Variant>& variants, std::int64_t steps,
                     const std::map<std::string, Plant>& planted = {}) const;
  const World& world() const { return world_; }
  bool is_first() const { return world_.rank() == 0; }

 private:
  World world_{MPI_COMM_WORLD};
  parity::TokenFileForTests data_{MPI_COMM_WORLD, 61, 16 * 8 * 20 + 1};
};

/// Calls change(operation) for each operation of the training program, then derives waits and memory anew.
void change_operations(RankPrograms& programs, const std::function<void(Operation&)>& change);
/// Deletes the operations for which holds(operation); there must be some.
void delete_operations(RankPrograms& programs, const std::function<bool(const Operation&)>& holds);
/// Derives waits and memory of a changed program anew.
void finish(PlannedProgram& planned);

}  // namespace octachoron::compare_test
